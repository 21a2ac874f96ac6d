"""Noisy-channel reranking of n-best lists."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from seqloom.decode.rerank import (
    Channel,
    ChannelWeights,
    NoisyChannel,
    bleu_against,
    channels,
    fit_weights,
    rerank,
)
from seqloom.decode.scoring import SequenceScore
from seqloom.evaluate.metrics import evaluate
from seqloom.types import Hypothesis


class Table:
    """Scorer with a table of scores, which checks the pairs that it receives."""

    def __init__(self, known: dict[tuple[str, str], float]) -> None:
        self.known = known

    def score(self, pairs: Sequence[tuple[str, str]], *, on_progress: object = None) -> list[SequenceScore]:
        return [SequenceScore(tokens=("t",), log_probs=(self.known[pair],)) for pair in pairs]


def hypothesis(text: str, log_prob: float) -> Hypothesis:
    return Hypothesis(text=text, score=log_prob, log_prob=log_prob, tokens=tuple(text.split()))


CANDIDATES = [[hypothesis("a", -1.0), hypothesis("b c", -2.0)], [hypothesis("d", -3.0)]]
REVERSE = Table({("a", "x"): -9.0, ("b c", "x"): -1.0, ("d", "y"): -4.0})
LANGUAGE = Table({("", "a"): -5.0, ("", "b c"): -7.0, ("", "d"): -6.0})


def test_each_model_scores_in_its_own_direction() -> None:
    found = channels(["x", "y"], CANDIDATES, reverse=REVERSE, language=LANGUAGE)
    told = [[(one.hypothesis.text, one.direct, one.reverse, one.language) for one in many] for many in found]
    assert told == [[("a", -1.0, -9.0, -5.0), ("b c", -2.0, -1.0, -7.0)], [("d", -3.0, -4.0, -6.0)]]


def test_the_score_is_the_weighted_sum() -> None:
    found = channels(["x", "y"], CANDIDATES, reverse=REVERSE, language=LANGUAGE)[0]
    weights = ChannelWeights(reverse=0.5, language=0.25, length=2.0)
    assert found[1].score(weights) == pytest.approx(-2.0 + 0.5 * -1.0 + 0.25 * -7.0 + 2.0 * 2)
    assert [one.hypothesis.text for one in rerank(found, ChannelWeights())] == ["a", "b c"]
    assert [one.hypothesis.text for one in rerank(found, ChannelWeights(reverse=0.5))] == ["b c", "a"]


def test_the_noisy_channel_alone_ignores_the_direct_model() -> None:
    found = channels(["x", "y"], CANDIDATES, reverse=REVERSE, language=LANGUAGE)[0]
    alone = ChannelWeights(reverse=1.0, language=1.0, direct=0.0)
    assert [one.score(alone) for one in found] == [-9.0 - 5.0, -1.0 - 7.0]
    chosen, value = fit_weights([found], lambda answers: float(answers[0] == "b c"), direct=0.0)
    assert (chosen.direct, value) == (0.0, 1.0)


def test_without_other_models_the_order_is_unchanged() -> None:
    found = channels(["x", "y"], CANDIDATES)
    assert [[one.hypothesis for one in rerank(many, ChannelWeights(1.0, 1.0))] for many in found] == CANDIDATES


def test_the_best_weights_on_validation_data_are_found() -> None:
    found = channels(["x", "y"], CANDIDATES, reverse=REVERSE, language=LANGUAGE)
    weights, value = fit_weights(found, lambda answers: float(answers[0] == "b c"))
    assert value == 1.0
    assert rerank(found[0], weights)[0].hypothesis.text == "b c"


def test_a_model_that_does_not_help_is_left_out() -> None:
    found = channels(["x", "y"], CANDIDATES, reverse=REVERSE, language=LANGUAGE)
    assert fit_weights(found, lambda answers: float(answers[0] == "a")) == (ChannelWeights(), 1.0)


def test_equal_scores_keep_the_order_of_the_search() -> None:
    same = [Channel(hypothesis(text, -1.0), -1.0, 0.0, 0.0) for text in ("a", "b", "c")]
    assert [one.hypothesis.text for one in rerank(same, ChannelWeights(1.0, 1.0))] == ["a", "b", "c"]


def test_the_quality_equals_the_bleu_of_evaluate() -> None:
    references = [["the cat sat on the mat", "a cat sat there"], ["two dogs run in the park"]]
    quality = bleu_against(references)
    for answers in (
        ["the cat sat on a mat", "two dogs run in the park"],
        ["the cat sat on a mat", "two dogs in a park run"],  # the first text again, with cached counts
        ["two dogs run in the park", "the cat sat on a mat"],  # cached texts on other lines
    ):
        (expected,) = evaluate(answers, references, "bleu", bootstrap=0)
        assert quality(answers) == pytest.approx(expected.value)


@pytest.mark.parametrize(("nbest", "beam"), [(2, 5), (9, 9)])
def test_the_channel_reranks_the_nbest_list(nbest: int, beam: int) -> None:
    asked: dict[str, Any] = {}

    def translate(lines: Sequence[str], **options: Any) -> list[list[Hypothesis]]:
        asked.update(options)
        return CANDIDATES

    found: Any = SimpleNamespace(search=SimpleNamespace(beam=5), translate=translate)
    channel = NoisyChannel(found, nbest, reverse=REVERSE, language=LANGUAGE)
    ranked = channel.translate(["x", "y"], ChannelWeights(reverse=0.5))
    assert [[one.hypothesis.text for one in many] for many in ranked] == [["b c", "a"], ["d"]]
    assert (asked["nbest"], asked["beam"]) == (nbest, beam)  # the beam is at least nbest
