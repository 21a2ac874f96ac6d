"""Cases for every registered architecture, in two sizes, with both kinds of vocabulary and all other options.

Architectures that are not trained by gradient descent are fitted to a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from seqloom.data.batching import collate_ids
from seqloom.models.labels import RecurrentLabelSettings, TransformerLabelSettings
from seqloom.models.language import LanguageModelSettings
from seqloom.models.recurrent import RecurrentSettings
from seqloom.models.recurrent_language import RecurrentLanguageSettings
from seqloom.models.transformer import TransformerSettings
from seqloom.registry import FILL, Architecture, architectures
from seqloom.statistical.hmm.tagger import TaggerSettings
from seqloom.types import PAD, Batch, Vocabularies
from support.step_models import FITTED, SHALLOW, fitted
from support.step_models import sources as sources_for

# Sizes that no preset has, to catch accidental success; an architecture takes the fields that it has.
ODD = {
    "width": 30,
    "layers": 3,
    "decoder_layers": 1,
    "heads": 5,
    "ffn": 13,
    "attention_width": 7,
    "tie": "none",
}
# Options that no registered name sets, one case per line.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "recurrent": {
        "feeding": {"input_feeding": True},
        "feeding-mean": {"context": "mean", "input_feeding": True},
        "previous": {"query": "previous"},
        "concat": {"combine": "concat"},
        "concat-feeding": {"combine": "concat", "input_feeding": True, "query": "previous"},
        "projections": {"projections": "separate", "attention_width": 7},
        "feed-forward": {"score": "feed-forward", "attention_width": 7},
        "coverage-additive": {"coverage": True, "score": "additive"},
        "coverage-dot-feeding": {"coverage": True, "score": "dot", "input_feeding": True},
        "monotonic": {"window": "monotonic", "window_size": 2},
        "predictive": {"window": "predictive", "window_size": 2},
        "relu": {"cell": "rnn", "activation": "relu"},
        "sigmoid": {"cell": "rnn", "activation": "sigmoid"},
        "identity": {"cell": "rnn", "activation": "identity"},
        "forward": {"direction": "forward", "context": "last"},
        "residual": {"layers": 3, "decoder_layers": 4, "residual": True},
        "steps": {"kernel": "steps"},
        "orthogonal": {"init": "orthogonal", "forget_bias": 1.0},
        "start-state": {"start": "state"},
        "start-copy": {"start": "copy", "layers": 2, "decoder_layers": 3},
        "encoder-width": {"encoder_width": 40, "layers": 2, "residual": True},
        "raw": {"attention_weights": "raw", "score": "scaled-dot", "input_feeding": True},
    },
    "transformer": {
        "no-positions": {"positions": "none"},
        "learned": {"positions": "learned", "max_length": 12},
        "t5": {"positions": "t5"},
        "kerple": {"positions": "kerple"},
        "rms-after": {"norm": "rms", "norm_place": "after"},
        "no-norm": {"norm_place": "none"},
        "gelu": {"activation": "gelu"},
        "no-feed-forward": {"activation": "none"},
        "own-head-widths": {"heads": 5, "qk_width": 6, "v_width": 11},
        "own-head-widths-relative": {
            "heads": 5,
            "qk_width": 7,
            "v_width": 3,
            "positions": "relative",
            "relative_distance": 2,
        },
        "unscaled": {"scaled": False},
        "no-attention-bias": {"attention_bias": False},
        "raw": {"attention_weights": "raw"},
        "tags": {"tag_positions": False},
        "tags-learned": {"tag_positions": False, "positions": "learned", "max_length": 12},
        "window": {"encoder": {"attention": "window", "window": 1, "block": 2}},
        "bigbird-blocks": {"encoder": {"attention": "bigbird", "block": 1, "random_blocks": 1}},
        "linformer-shared": {
            "encoder": {"attention": "linformer", "sharing": "model", "separate": True, "rank": 5}
        },
    },
    "lm": {
        "no-positions": {"positions": "none"},
        "learned": {"positions": "learned", "max_length": 24},
        "relative": {"positions": "relative", "relative_distance": 2},
        "rotary": {"positions": "rotary"},
        "alibi": {"positions": "alibi"},
        "t5": {"positions": "t5"},
        "rms-after": {"norm": "rms", "norm_place": "after"},
        "own-head-widths": {"heads": 5, "qk_width": 6, "v_width": 11},
        "no-attention-bias": {"attention_bias": False},
        "raw": {"attention_weights": "raw"},
        "window": {"decoder": {"attention": "window", "window": 5, "block": 2}},
        "bigbird": {"decoder": {"attention": "bigbird", "block": 1, "random_blocks": 1}},
        "bigbird-rotary": {"decoder": {"attention": "bigbird", "block": 2}, "positions": "rotary"},
    },
    "lstm-lm": {
        "residual": {"layers": 3, "residual": True},
        "steps": {"kernel": "steps"},
        "orthogonal": {"init": "orthogonal", "forget_bias": 1.0},
    },
    "bilstm-tagger": {"deep-gru": {"cell": "gru", "layers": 2, "residual": True}},
    "transformer-tagger": {"rotary": {"positions": "rotary"}},
    "bilstm-classifier": {
        "last": {"pooling": "last", "direction": "forward"},
        "mean": {"pooling": "mean", "cell": "rnn"},
    },
    "transformer-classifier": {
        "last": {"pooling": "last"},
        "mean-window": {"pooling": "mean", "encoder": {"attention": "window", "window": 4, "block": 2}},
    },
    "prefix-lm": {
        "relative": {"positions": "relative", "relative_distance": 2},
        "rotary": {"positions": "rotary"},
        "alibi": {"positions": "alibi"},
        "t5": {"positions": "t5"},
        "raw": {"attention_weights": "raw"},
    },
}
# The same for models that fill gaps.
FILLING: dict[str, dict[str, dict[str, Any]]] = {
    "mlm": {
        "learned": {"positions": "learned", "max_length": 12},
        "relative": {"positions": "relative", "relative_distance": 2},
        "rotary": {"positions": "rotary"},
        "alibi": {"positions": "alibi"},
        "t5": {"positions": "t5"},
        "rms-after": {"norm": "rms", "norm_place": "after"},
        "window": {"encoder": {"attention": "window", "window": 4, "block": 2}},
    },
}
# Cases in which the attention of a step is not a distribution: there is none, or a factor scales the weights.
# All other models with these settings return a distribution; a custom architecture may return one or None.
ATTENTIVE = (
    TransformerSettings,
    RecurrentSettings,
    TaggerSettings,
    RecurrentLabelSettings,
    TransformerLabelSettings,
)
ATTENTION = {
    "rnn-last": "none",
    "lstm-last": "none",
    "gru-last": "none",
    "recurrent-forward": "none",
    "recurrent-predictive": "smaller",
    "recurrent-raw": "none",
    "transformer-raw": "none",
    "lm-raw": "none",
    "prefix-lm-raw": "none",
    "rnn-notes": "none",
    "lm-window": "partial",  # nothing of the source is in the window of a late step
    # A language model attends to its own output too.
    "lm": "smaller",
    "prefix-lm": "smaller",
    "rnn-lm": "none",
    "lstm-lm": "none",
    "gru-lm": "none",
    # These have no source, or all of it at every step.
    "ngram": "none",
    "hmm-lm": "none",
    "hmm-classifier": "none",
}
SHARED, SEPARATE = Vocabularies(23, 23, True, tags=(5, 9, 14, 20)), Vocabularies(29, 19, False)
# Cases that are also tested with frames: one of each kind of encoder.
READ_FRAMES = ("transformer", "lstm-additive", "bilstm-classifier", "transformer-classifier")
FRAMES = Vocabularies(11, 23, False, features=True)


@dataclass(frozen=True)
class Case:
    """An architecture with its settings."""

    architecture: Architecture
    vocabularies: Vocabularies
    fields: dict[str, Any] = field(default_factory=dict)
    attention: str = "distribution"
    tolerance: float = 1e-10

    def build(self, seed: int = 1, **fields: Any) -> Any:
        """Return a new model in evaluation mode, in double precision for exact comparisons."""
        torch.manual_seed(seed)
        return self.construct(**fields)

    def construct(self, **fields: Any) -> Any:
        """Return the same with weights drawn from the caller's random numbers."""
        entry = self.architecture
        values = {**entry.overrides, "name": entry.name, "size": "tiny", **self.fields, **fields}
        return entry.build(entry.settings.model_validate(values), self.vocabularies).double().eval()

    def known(self, **fields: Any) -> dict[str, Any]:
        """Return the fields that the architecture has."""
        its = self.architecture.settings.model_fields
        return {name: value for name, value in fields.items() if name in its}

    @property
    def reads_targets(self) -> bool:
        """Whether the distribution of a token depends on the tokens before it."""
        return self.architecture.task.mismatch is None

    def targets(self, given: Sequence[list[int]], sources: Sequence[list[int]]) -> list[list[int]]:
        """Return the targets of these sources: the given ones, or one label per word or per sequence."""
        if self.reads_targets:
            return list(given)
        count = len if self.architecture.task.keeps_words else lambda source: 1
        return [[(*target, 9)[0]] * count(source) for target, source in zip(given, sources, strict=True)]

    @property
    def may_ignore_order(self) -> bool:
        """Whether the model may treat permuted sources as equal."""
        built_in = issubclass(
            self.architecture.settings, (*ATTENTIVE, LanguageModelSettings, RecurrentLanguageSettings)
        )
        return not built_in or self.fields.get("positions") == "none"

    def batch(self, seed: int = 2) -> Batch:
        """Return four pairs of different lengths; the shortest source has one token and its end.

        The sources have trees, for models that read them.
        """
        return _four_pairs(self.vocabularies, self.sources, seed)

    def sources(self, ids: Sequence[Sequence[int]]) -> list[Any]:
        """Return the input for these ids: the ids, or one frame per id."""
        if not self.vocabularies.features:
            return list(ids)
        random = torch.Generator().manual_seed(3)
        frames = torch.randn(23, self.vocabularies.source, generator=random).numpy()
        return [frames[list(row)] for row in ids]


@dataclass(frozen=True)
class FittedCase:
    """A fitted architecture with its settings."""

    name: str
    attention: str = "distribution"
    byte_fallback: bool = False
    tolerance: float = 1e-6  # fitted in double precision, with outputs in single precision

    @property
    def vocabularies(self) -> Vocabularies:
        return fitted(self.name, byte_fallback=self.byte_fallback).vocabularies

    def build(self) -> Any:
        """Return the model, fitted once for all tests."""
        return fitted(self.name, byte_fallback=self.byte_fallback).model

    def batch(self) -> Batch:
        """Return four pairs of different lengths."""
        return _four_pairs(self.vocabularies, lambda ids: sources_for(self.vocabularies, ids))


@dataclass(frozen=True)
class FillCase(Case):
    """A model that fills gaps: its target is the true token at masked positions, PAD elsewhere."""

    def batch(self, seed: int = 2) -> Batch:
        """Return four texts of different lengths, with one or two masked tokens each."""
        random = torch.Generator().manual_seed(seed)
        texts = [_ids(n, self.vocabularies.source, random) for n in (3, 7, 1, 5)]
        return hide(texts, [(0, 2), (1, 6), (0,), (4,)])


def _four_pairs(
    vocabularies: Vocabularies, sources: Callable[[list[Sequence[int]]], list[Any]], seed: int = 2
) -> Batch:
    """Return random pairs of different lengths, with trees over the sources."""
    random = torch.Generator().manual_seed(seed)
    different = 11 if vocabularies.features else vocabularies.source
    rows = sources([_ids(n, different, random) for n in (3, 7, 1, 5)])
    targets = [_ids(n, vocabularies.target, random) for n in (4, 0, 6, 2)]
    heads = [[2, 0, 2], [2, 4, -1, 0, 7, 5, 4], [0], [0, -1, 1, 3, 1]]
    return collate_ids(rows, targets, range(len(rows)), heads)


def hide(texts: Sequence[Sequence[int]], places: Sequence[Sequence[int]], mask: int = 3) -> Batch:
    """Return a batch of these texts with the tokens at these positions masked."""
    whole = collate_ids(texts, None, range(len(texts)))
    source, wanted = whole.source.clone(), torch.full_like(whole.source, PAD)
    for row, columns in enumerate(places):
        for column in columns:
            wanted[row, column], source[row, column] = source[row, column], mask
    return replace(
        whole,
        source=source,
        target_out=wanted,
        target_lengths=whole.source_lengths,
        target_tokens=int((wanted != PAD).sum()),
    )


def _ids(count: int, vocabulary: int, random: torch.Generator) -> Sequence[int]:
    ids: list[int] = torch.randint(3, vocabulary, (count,), generator=random).tolist()
    return ids


def _attention(entry: Architecture) -> str:
    default = "distribution" if issubclass(entry.settings, ATTENTIVE) else "optional"
    return ATTENTION.get(entry.name, default)


def _cases() -> dict[str, Case]:
    found = {}
    for name, entry in architectures(fitted=False).items():
        if entry.task is FILL or entry.task.writes_vectors:  # see test_filling.py and test_vectors.py
            continue
        odd = {key: value for key, value in ODD.items() if key in entry.settings.model_fields}
        attention = _attention(entry)
        found[f"{name}-shared"] = Case(entry, SHARED, dict(SHALLOW.get(name, {})), attention)
        if not entry.overrides:  # no preset changes how vocabularies are tied
            found[f"{name}-separate"] = Case(entry, SEPARATE, attention=attention)
        found[f"{name}-odd"] = Case(entry, SEPARATE, odd, attention)
        if name in READ_FRAMES:
            found[f"{name}-frames"] = Case(entry, FRAMES, attention=attention)
        for choice, fields in VARIANTS.get(name, {}).items():
            found[f"{name}-{choice}"] = Case(
                entry, SHARED, fields, ATTENTION.get(f"{name}-{choice}", attention)
            )
    return found


CASES = _cases()


FITTED_CASES = {
    f"{name}-bytes" if byte_fallback else name: FittedCase(
        name, _attention(architectures()[name]), byte_fallback
    )
    for name in FITTED
    for byte_fallback in (False, True)
}
STEP_CASES: dict[str, Case | FittedCase] = {**CASES, **FITTED_CASES}


@pytest.fixture(params=list(STEP_CASES))
def step_case(request: pytest.FixtureRequest) -> Case | FittedCase:
    """All models that are decoded token by token, trained by gradient descent or fitted."""
    return STEP_CASES[request.param]


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    """Each name with one vocabulary and with odd sizes, each architecture with two and all other options."""
    return CASES[request.param]


ONCE = [name for name in CASES if not name.endswith(("-separate", "-odd"))]


@pytest.fixture(params=ONCE)
def default_case(request: pytest.FixtureRequest) -> Case:
    """Each name and each option once, for slower tests."""
    return CASES[request.param]


def _fill_cases() -> dict[str, FillCase]:
    found = {}
    for name, entry in architectures(fitted=False).items():
        if entry.task is not FILL:
            continue
        odd = {key: value for key, value in ODD.items() if key in entry.settings.model_fields}
        found[f"{name}-shared"] = FillCase(entry, SHARED)
        found[f"{name}-odd"] = FillCase(entry, SHARED, odd)
        for choice, fields in FILLING.get(name, {}).items():
            found[f"{name}-{choice}"] = FillCase(entry, SHARED, fields)
    return found


FILL_CASES = _fill_cases()


@pytest.fixture(params=list(FILL_CASES))
def fill_case(request: pytest.FixtureRequest) -> FillCase:
    """Each architecture that fills gaps, in its default and in odd sizes, and with all other options."""
    return FILL_CASES[request.param]


@dataclass(frozen=True)
class VectorCase(Case):
    """A model whose targets are vectors or distributions."""

    def batch(self, seed: int = 2) -> Batch:
        """Return four pairs with targets of different lengths; no target is empty."""
        random = torch.Generator().manual_seed(seed)
        ids = [_ids(n, 11 if self.vocabularies.features else 23, random) for n in (3, 7, 1, 5)]
        rows = [torch.rand(n, self.vocabularies.target, generator=random) for n in (4, 1, 6, 2)]
        if self.vocabularies.outputs == "distributions":
            rows = [row / row.sum(1, keepdim=True) for row in rows]
        heads = [[0] * len(row) for row in ids]
        return collate_ids(self.sources(ids), [row.numpy() for row in rows], range(4), heads)


def _vector_cases() -> dict[str, VectorCase]:
    kinds = {
        "vectors": Vocabularies(23, 3, False, outputs="vectors"),
        "distributions": Vocabularies(23, 4, False, outputs="distributions"),
        "frames": Vocabularies(11, 1, False, features=True, outputs="vectors"),
    }
    entries = {name: one for name, one in architectures(fitted=False).items() if one.task.writes_vectors}
    return {
        f"{name}-{kind}": VectorCase(entry, vocabularies)
        for name, entry in entries.items()
        for kind, vocabularies in kinds.items()
    }


VECTOR_CASES = _vector_cases()


@pytest.fixture(params=list(VECTOR_CASES))
def vector_case(request: pytest.FixtureRequest) -> VectorCase:
    """Each architecture of vectors, with vectors and distributions, and with frames as sources."""
    return VECTOR_CASES[request.param]


EVERY = {**CASES, **FILL_CASES, **VECTOR_CASES}


@pytest.fixture(params=list(EVERY))
def any_case(request: pytest.FixtureRequest) -> Case:
    """All cases."""
    return EVERY[request.param]


@pytest.fixture
def hidden_in() -> Callable[..., Batch]:
    """Function that returns a batch of texts with tokens masked at the given positions."""
    return hide


@pytest.fixture
def model(case: Case) -> Any:
    return case.build()


@pytest.fixture
def batch(case: Case) -> Batch:
    return case.batch()
