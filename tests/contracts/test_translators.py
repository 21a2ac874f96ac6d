"""Every kind of translator honours every option and every kind of request, or refuses it with an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.reference import reference_beam_search
from seqloom.decode.strategies import BeamSearch, MinimumBayesRisk, Sampling, Strategy
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.decode.translator import IMPOSSIBLE, NOTHING, Outputs, Translator
from seqloom.errors import SeqloomError
from seqloom.registry import architecture
from seqloom.types import Batch, Hypothesis, Request, Step, StepModel, Tree, Vocabularies
from support.translators import CLIPS, OPTIONS, SENTENCES, SUBJECTS, Subject, differ, opened, options_of

SAMPLES = SamplingConfig(samples=6, seed=2)


@pytest.fixture(params=list(SUBJECTS), scope="module")
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def subject(name: str) -> Subject:
    return SUBJECTS[name]


@pytest.fixture(scope="module")
def translator(name: str) -> Iterator[Translator]:
    with opened(name) as one:
        yield one


def reference(translator: Translator, options: Mapping[str, Any], subject: Subject) -> Outputs:
    """Return the result of a search that expands one hypothesis at a time."""
    assert isinstance(translator, TorchTranslator)
    search, outputs = translator.with_search(options).search, []
    for line in subject.lines:
        if not line:
            outputs.append([NOTHING])
            continue
        problem = translator.problem(Request(line), search)
        found = reference_beam_search(
            problem.model, problem.sentence, problem.plan, max_length=problem.max_length
        )
        decode = translator.tokenizers.target.decode
        texts = [Hypothesis(decode(one.tokens), one.score, finished=one.finished) for one in found]
        outputs.append(translator._flagged(Request(line), texts[: search.nbest]))
    return outputs


# Search options.


def test_every_search_option_has_a_case() -> None:
    assert OPTIONS.keys() == SearchConfig.model_fields.keys()
    for name in OPTIONS:
        _, values = options_of(SUBJECTS["transformer"], name)
        assert SearchConfig.checked(values, "search").differing({name}) == [name], "it is the default"


@pytest.mark.parametrize("option", OPTIONS)
def test_a_search_option_is_honoured_or_refused(
    translator: Translator, subject: Subject, name: str, option: str
) -> None:
    without, values = options_of(subject, option)
    if option in subject.refused:
        with pytest.raises(SeqloomError, match=option):
            translator.with_search(values).translate(subject.lines)
        return
    searching = translator.with_search(values)
    outputs = searching.translate(subject.lines)
    assert outputs[1] == [NOTHING]
    for output in (*outputs[0], *outputs[2]):
        assert OPTIONS[option].rule(subject, searching.search, output), output
    changes = OPTIONS[option].changes and option not in subject.same
    assert differ(outputs, translator.with_search(without).translate(subject.lines)) == changes
    if subject.origin:
        with opened(subject.origin) as other:
            assert not differ(outputs, other.with_search(values).translate(subject.lines))
    elif option != "require" and name != "phrase":  # its own search; see tests/oracle/test_required.py
        assert not differ(outputs, reference(translator, values, subject))


@pytest.mark.parametrize("option", OPTIONS)
def test_a_search_option_applies_to_samples_or_is_refused(
    translator: Translator, subject: Subject, option: str
) -> None:
    _, values = options_of(subject, option)
    strategy = Sampling(samples=6, seed=2)
    if option not in strategy.search_options:
        with pytest.raises(SeqloomError, match=f"search.{option} has no effect with the strategy sample"):
            strategy.check_options({option: values[option]})
        return
    if "sampling" not in subject.capabilities or option in subject.refused:
        with pytest.raises(SeqloomError):
            strategy.translate(translator.with_search(values), subject.lines)
        return
    without = {name: value for name, value in values.items() if name != option}
    searching = translator.with_search(values)
    outputs = strategy.translate(searching, subject.lines)
    for output in (*outputs[0], *outputs[2]):
        assert OPTIONS[option].rule(subject, searching.search, output), output
    changes = OPTIONS[option].changes and option not in subject.same
    assert differ(outputs, strategy.translate(translator.with_search(without), subject.lines)) == changes


# Requests.


def test_outputs_are_in_the_order_of_the_lines(translator: Translator, subject: Subject) -> None:
    first, empty, last = subject.lines
    lines = [first, last, empty, empty, last, first]
    seen: list[int] = []
    outputs = translator.translate(lines, on_progress=seen.append)
    assert sum(seen) == len(lines)
    assert [len(one) for one in outputs] == [1] * len(lines)
    assert outputs[2] == outputs[3] == [NOTHING]
    assert not differ(outputs, [translator.translate(line) for line in lines])


def test_the_n_best_are_sorted(translator: Translator, subject: Subject) -> None:
    outputs = translator.translate(subject.lines, beam=4, nbest=4)
    assert [len(one) for one in outputs] == [len(outputs[0]), 1, len(outputs[2])]
    assert min(len(outputs[0]), len(outputs[2])) >= 2
    for found in outputs:
        assert len({one.text for one in found}) == len(found)
        assert all((a.finished, a.score) >= (b.finished, b.score) for a, b in pairwise(found))


def test_alignments(translator: Translator, subject: Subject) -> None:
    if "alignment" not in subject.capabilities:
        with pytest.raises(SeqloomError, match="lignment"):
            translator.translate(subject.lines, alignment=True)
        return
    outputs = translator.translate(subject.lines, alignment=True)
    assert not differ(outputs, translator.translate(subject.lines))
    for (output,) in (outputs[0], outputs[2]):
        weights = torch.tensor(output.alignment)
        assert weights.shape == (len(output.tokens) + 1, len(output.source_tokens) + 1)
        sums = weights.sum(dim=1)  # less than 1 if the model also attends to its own output
        assert bool((weights >= 0).all() and (sums > 0).all() and (sums < 1.0001).all())
    assert outputs[1] == [NOTHING]


def test_a_prefix_begins_every_output(translator: Translator, subject: Subject) -> None:
    requests = [Request(line, prefix=subject.rare) for line in subject.lines]
    if "prefix" not in subject.capabilities:
        with pytest.raises(SeqloomError, match="does not support prefixes"):
            translator.translate(requests)
        return
    found = [translator.translate(requests), translator.sample(requests, SAMPLES)]
    for outputs in found:
        assert outputs[1] == [NOTHING]
        for output in (*outputs[0], *outputs[2]):
            assert f"{output.text} ".startswith(f"{subject.rare} ") or output.flags == ("impossible",)
        assert any(output.text for output in outputs[2])


def test_required_words_are_in_every_output(translator: Translator, subject: Subject) -> None:
    requests = [Request(line, required=(subject.rare,)) for line in subject.lines]
    if "required" not in subject.capabilities:
        with pytest.raises(SeqloomError, match="does not support required words"):
            translator.translate(requests)
        return
    outputs = translator.translate(requests, beam=4, nbest=4)
    assert outputs[1] == [NOTHING]
    assert all(f" {subject.rare} " in f" {one.text} " for one in (*outputs[0], *outputs[2]))
    assert not differ(
        outputs, translator.with_search(options_of(subject, "require")[1]).translate(subject.lines)
    )
    with pytest.raises(SeqloomError, match="does not support required words"):
        translator.sample(requests, SAMPLES)


def test_words_that_are_not_in_the_vocabulary() -> None:
    with opened("transformer") as translator:
        for request in (Request("the cat", prefix="le zebra"), Request("the cat", required=("zebra",))):
            with pytest.raises(SeqloomError, match=r"target vocabulary"):
                translator.translate([request])


def test_samples(translator: Translator, subject: Subject) -> None:
    if "sampling" not in subject.capabilities:
        with pytest.raises(SeqloomError, match="does not support sampling"):
            translator.sample(subject.lines, SAMPLES)
        return
    outputs = translator.sample(subject.lines, SAMPLES)
    assert [len(one) for one in outputs] == [6, 1, 6]
    assert outputs[1] == [NOTHING]
    assert not differ(outputs, [translator.sample(line, SAMPLES) for line in subject.lines])
    greedy = translator.sample(subject.lines, SamplingConfig(temperature=0))
    best = translator.translate(subject.lines, beam=1)
    assert [one[0].text for one in greedy] == [one[0].text for one in best]


@pytest.mark.parametrize("strategy", [MinimumBayesRisk(samples=6), MinimumBayesRisk(beam=4)])
def test_minimum_bayes_risk_chooses_among_candidates(
    translator: Translator, subject: Subject, strategy: MinimumBayesRisk
) -> None:
    if not strategy.needs <= subject.capabilities:
        with pytest.raises(SeqloomError, match="does not support sampling"):
            strategy.translate(translator, subject.lines)
        return
    chosen = strategy.translate(translator, subject.lines)
    if strategy.beam:
        found = translator.translate(subject.lines, beam=4, nbest=4)
    else:
        found = translator.sample(subject.lines, SamplingConfig(samples=6))
    for (output,), candidates in zip(chosen, found, strict=True):
        assert output.text in {one.text for one in candidates}
        assert 0 <= output.score <= 100


def test_exact_search(translator: Translator, subject: Subject) -> None:
    """Its outputs are at least as good as those of a beam, and the same for every kind of translator."""
    if "exact" not in subject.capabilities:
        with pytest.raises(SeqloomError, match="does not support exact search"):
            translator.exact(subject.lines, expand=1)
        return
    outputs = translator.with_search({"length_norm": "none", "longest": 3}).exact(subject.lines, expand=400)
    beam = translator.with_search({"length_norm": "none", "longest": 3}).translate(subject.lines)
    assert outputs[1] == [NOTHING]
    for (output,), (known,) in zip(outputs, beam, strict=True):
        assert (output.finished, output.score) >= (known.finished, known.score - 1e-4)
    assert any("unproven" not in output.flags for (output,) in outputs)
    if subject.origin:
        with opened(subject.origin) as other:
            searching = other.with_search({"length_norm": "none", "longest": 3})
            assert not differ(outputs, searching.exact(subject.lines, expand=400))


# No possible hypothesis.


@pytest.mark.parametrize(
    "strategy",
    [
        BeamSearch(),
        BeamSearch(beam=4, nbest=4),
        Sampling(samples=4),
        MinimumBayesRisk(samples=4),
        MinimumBayesRisk(beam=4),
    ],
    ids=["beam", "n-best", "sample", "mbr", "mbr-beam"],
)
def test_no_possible_hypothesis(translator: Translator, subject: Subject, strategy: Strategy) -> None:
    if subject.impossible is None:
        with pytest.raises(SeqloomError, match="does not support search"):
            translator.with_search({"min_length": 9}).translate(subject.lines)
        return
    strict = translator.with_search(subject.impossible)
    assert strategy.translate(strict, subject.lines)[::2] == [[IMPOSSIBLE]] * 2
    assert strategy.translate(strict, [""])[0][0].flags == ()


@pytest.mark.parametrize(
    "options",
    [{"forbid": ["chat"], "require": ["chat"]}, {"require": ["chat", "arbre", "vert"], "longest": 2}],
    ids=["forbidden", "no room"],
)
def test_required_words_that_cannot_be_generated(options: dict[str, Any]) -> None:
    with opened("transformer") as translator:
        assert translator.with_search(options).translate(SENTENCES) == [[IMPOSSIBLE], [NOTHING], [IMPOSSIBLE]]


def test_a_prefix_without_probability() -> None:
    request = Request("the cat", prefix="NOUN NOUN NOUN")  # three tags for two words
    with opened("hmm") as translator:
        assert translator.translate([request]) == [[IMPOSSIBLE]]
        assert translator.sample([request], SAMPLES) == [[IMPOSSIBLE]]


class Broken(StepModel):
    """A model whose probabilities are NaN."""

    def __init__(self, model: StepModel) -> None:
        self._model, self.reads_trees = model, model.reads_trees

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        return self._model.start(batch)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        step = self._model.step(memory, state, last)
        return step._replace(log_probs=torch.full_like(step.log_probs, torch.nan))

    def max_target_length(self, source_length: int) -> int | None:
        return self._model.max_target_length(source_length)


@pytest.mark.parametrize("name", ["transformer", "lstm", "prefix-lm", "hmm"])
def test_a_model_that_returns_nan(name: str) -> None:
    with opened(name) as translator:
        assert isinstance(translator, TorchTranslator)
        broken = copy(translator)
    broken.model = Broken(translator.model)
    impossible = [[IMPOSSIBLE], [NOTHING], [IMPOSSIBLE]]
    assert broken.translate(SENTENCES) == impossible
    assert broken.translate(SENTENCES, alignment=True) == impossible
    assert broken.sample(SENTENCES, SAMPLES) == impossible
    required = [Request(line, required=(SUBJECTS[name].likely,)) for line in SENTENCES]
    assert broken.translate(required) == impossible


@pytest.mark.parametrize("model", ["hmm-classifier", "transformer", "lstm-additive"])
def test_frames_that_are_too_large(model: str, tmp_path: Path) -> None:
    """A model that can still tell them apart may do so, but no output has a NaN score."""
    frames = np.load(CLIPS[0])
    loud = np.full_like(frames, 3e38)
    loud[::2] *= -1
    np.save(tmp_path / "loud.npy", loud)
    with opened("hmm-classifier") as translator:
        assert isinstance(translator, TorchTranslator)
    if model != "hmm-classifier":
        entry = architecture(model)
        settings = entry.settings.model_validate({**entry.overrides, "name": model, "size": "tiny"})
        target = translator.tokenizers.target.size
        sizes = Vocabularies(frames.shape[1], target, shared=False, features=True)
        translator = TorchTranslator(
            entry.build(settings, sizes).eval(), translator.tokenizers, translator.search
        )
    lines = [str(tmp_path / "loud.npy"), "", CLIPS[0]]
    for outputs in (translator.translate(lines, beam=4, nbest=4), translator.sample(lines, SAMPLES)):
        assert outputs[1] == [NOTHING]
        assert all(np.isfinite(one.score) for one in outputs[2])
        assert outputs[0] == [IMPOSSIBLE] or all(np.isfinite(one.score) for one in outputs[0])
