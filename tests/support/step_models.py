"""A tiny model of every registered architecture that is decoded token by token.

Models that are trained by gradient get random weights; the others are fitted to a few lines. A new architecture
is found in the registry. A fitted one learns from text, from words with a tag for each, or from frames with a
class, by its task and the tokenizer that it asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import seqloom
from seqloom.data.batching import collate_ids
from seqloom.registry import CONTINUE, FILL, Architecture, architectures
from seqloom.run.directory import Run
from seqloom.text.pair import TokenizerPair
from seqloom.types import Batch, Step, StepModel, Tree, Vocabularies

NEURAL = [
    name
    for name, entry in architectures(fitted=False).items()
    if entry.task is not FILL and not entry.task.writes_vectors
]
FITTED = [name for name, entry in architectures(fitted=True).items() if hasattr(entry.build, "step")]
OWN_SEARCH = [name for name in architectures(fitted=True) if name not in FITTED]
STEP_MODELS = [*NEURAL, *FITTED]

TAGS = "XYZ"  # all target words of fitted models
FITTED_VOCABULARY = 4 + len(TAGS)  # the special tokens come first
# Models whose own depth takes too long for suites of many small checks.
SHALLOW: Mapping[str, Mapping[str, Any]] = {"transformer-deep": {"layers": 3, "decoder_layers": 3}}


class Fitted(NamedTuple):
    """A model that was fitted to a few lines, and its tokenizers."""

    model: Any
    tokenizers: TokenizerPair

    @property
    def vocabularies(self) -> Vocabularies:
        return self.tokenizers.vocabularies


class TableModel(StepModel):
    """Log probabilities of the next token and attention, looked up in tables.

    A table is (V, V) by the last token, (T, V, V) also by the step, (N, T, V, V) also by the first source id.
    """

    def __init__(self, log_probs: Tensor, attention: Tensor | None = None) -> None:
        self.log_probs, self.attention = log_probs, attention
        self.steps = 0  # how often `step` was called

    @classmethod
    def of(cls, rows: Mapping[int, Mapping[int, float]], vocabulary: int, rest: float = -30.0) -> Self:
        """Return the model with these log probabilities by the last token, and `rest` elsewhere."""
        table = torch.full((vocabulary, vocabulary), rest)
        for last, values in rows.items():
            for token, value in values.items():
                table[last, token] = value
        return cls(table)

    @classmethod
    def random(cls, *shape: int, seed: int, scale: float = 1.0, density: float = 1.0) -> Self:
        """Return a model of random distributions; a density below 1 makes tokens but the last impossible."""
        random = torch.Generator().manual_seed(seed)
        logits = scale * torch.randn(shape, generator=random, dtype=torch.float64)
        possible = torch.rand(shape, generator=random) < density
        possible[..., -1] = True
        return cls(logits.masked_fill(~possible, -torch.inf).log_softmax(-1))

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        return batch.source[:, 0], torch.zeros(len(batch.source), dtype=torch.long)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        self.steps += 1
        source = memory.repeat_interleave(len(last) // max(len(memory), 1))
        place = (source, state, last)[4 - self.log_probs.dim() :]
        attention = None if self.attention is None else self.attention[place]
        return Step(self.log_probs[place], state + 1, attention)


def random_model(name: str, vocabulary: int | Vocabularies, seed: int, **fields: Any) -> Any:
    """A model with random weights, in double precision, not training; a number is a shared vocabulary."""
    entry = architectures(fitted=False)[name]
    torch.manual_seed(seed)
    values = {**entry.overrides, "name": name, "size": "tiny", **SHALLOW.get(name, {}), **fields}
    if isinstance(vocabulary, int):
        vocabulary = Vocabularies(vocabulary, vocabulary, True)
    return entry.build(entry.settings.model_validate(values), vocabulary).double().eval()


def step_model(name: str, vocabulary: int, seed: int) -> Any:
    """A model with random weights of that vocabulary, or a fitted one, which has its own."""
    return random_model(name, vocabulary, seed) if name in NEURAL else fitted(name).model


@cache
def fitted(name: str, *, byte_fallback: bool = False) -> Fitted:
    """A fitted model; words that it has not seen are unknown, or spelled out in bytes."""
    entry = architectures(fitted=True)[name]
    settings: dict[str, Any] = {
        "text.tokenizer": entry.defaults.get("text.tokenizer", "word"),
        "text.byte_fallback": byte_fallback,
        "data.valid_share": 0.1,
        "train.threads": 1,
    }
    if entry.task is not CONTINUE:
        settings["text.joint"] = False
    with TemporaryDirectory() as temporary:
        data = write_lines(entry, Path(temporary))
        out = Path(temporary) / "run"
        user = seqloom.train(
            data, out=out, model=name, size="tiny", settings=settings, plan="fixed", quiet=True
        )
        return Fitted(user.model, Run.open(out).tokenizers())


def reads_frames(name: str) -> bool:
    """Whether an architecture reads frames of features, not text."""
    return architectures()[name].defaults.get("text.tokenizer") == "frames"


def write_lines(entry: Architecture, folder: Path) -> Path:
    """Write a file that the architecture can be fitted to."""
    if entry.task is CONTINUE:
        lines = [" ".join(tags) for _, tags in _tagged()]
    elif reads_frames(entry.name):
        lines = list(_clips(folder))
    else:
        lines = [f"{' '.join(words)}\t{' '.join(tags)}" for words, tags in _tagged()]
    path = folder / ("lines.txt" if entry.task is CONTINUE else "lines.tsv")
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _tagged() -> Iterator[tuple[list[str], list[str]]]:
    """Random words and their tags. Nothing is equally frequent, so that no two scores are equal by chance."""
    random = Random(5)
    for _ in range(60):
        tags = [random.choices(TAGS, (5, 3, 2))[0]]
        while random.random() < 0.7:
            tags.append(random.choices(TAGS, {"X": (1, 5, 3), "Y": (4, 1, 2), "Z": (3, 2, 1)}[tags[-1]])[0])
        words = [
            random.choices("abcd", {"X": (6, 3, 1, 1), "Y": (1, 5, 4, 1), "Z": (2, 1, 1, 6)}[tag])[0]
            for tag in tags
        ]
        yield words, tags


def _clips(folder: Path) -> Iterator[str]:
    """Write files of frames, whose mean says their class; yield each with its class."""
    random = np.random.default_rng(5)
    for number in range(36):
        tag = TAGS[number % 5 % 3]
        path = folder / f"{number}.npy"
        np.save(path, frames(int(random.integers(4, 9)), TAGS.index(tag) - 1.0, random))
        yield f"{path}\t{tag}"


def frames(count: int, mean: float, random: np.random.Generator) -> NDArray[np.float32]:
    """(count, 2) random numbers around the mean."""
    return (mean + random.normal(size=(count, 2))).astype(np.float32)


def sources(vocabularies: Vocabularies, ids: Sequence[Sequence[int]]) -> list[Any]:
    """What a model reads for these ids: themselves, or frames drawn for each of them."""
    if not vocabularies.features:
        return list(ids)
    return [frames(len(row), sum(row) % 3 - 1.0, np.random.default_rng(sum(row))) for row in ids]


def tolerance(name: str) -> float:
    """What counts as rounding in the scores of a model: fitted models answer in single precision."""
    return 1e-5 if name in FITTED else 1e-10


def batch_for(name: str, ids: Sequence[Sequence[int]]) -> Batch:
    """The batch of these sources as the model reads them, each with the tree of a chain."""
    rows = sources(fitted(name).vocabularies, ids) if name in FITTED else list(ids)
    return collate_ids(rows, None, range(len(rows)), [range(len(row)) for row in rows])
