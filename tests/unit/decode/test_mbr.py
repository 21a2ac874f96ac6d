"""Minimum Bayes risk: the candidate that is most similar to the others."""

from __future__ import annotations

import math

import pytest
import sacrebleu

from seqloom.decode.mbr import by_least_risk, least_risk, sentence_utility
from seqloom.types import Hypothesis


def hypotheses(*texts: str) -> list[Hypothesis]:
    return [Hypothesis(text=text, score=-float(rank)) for rank, text in enumerate(texts)]


def same(one: str, other: str) -> float:
    return float(one == other)


def test_the_consensus_beats_the_first_candidate() -> None:
    found = least_risk(hypotheses("x y z", "a b c", "a b d", "a b e"), sentence_utility("chrf"))
    assert found[0][0].text.startswith("a b") and found[-1][0].text == "x y z"


def test_a_sample_drawn_twice_counts_twice() -> None:
    found = least_risk(hypotheses("a", "b", "b"), same)
    assert [(one.text, round(value, 6)) for one, value in found] == [("b", 0.666667), ("a", 0.333333)]


def test_weights_are_probabilities() -> None:
    found = least_risk(hypotheses("a", "b"), same, weights=[3.0, 1.0])
    assert [(one.text, value) for one, value in found] == [("a", 0.75), ("b", 0.25)]


def test_the_utility_is_the_sum_over_all_pairs() -> None:
    texts = ["the cat sat on the mat", "a cat sat on a mat", "the dog ran", "the cat sat"]
    utility = sentence_utility("bleu")
    found = {one.text: value for one, value in least_risk(hypotheses(*texts), utility)}
    for text in texts:
        expected = sum(sacrebleu.sentence_bleu(text, [other]).score for other in texts) / len(texts)
        assert found[text] == pytest.approx(expected)


def test_samples_have_equal_weights_and_nbest_lists_are_weighted() -> None:
    found = [
        Hypothesis("a b c", score=-1.0, log_prob=-800.0),  # e^-800 alone is 0 in floating point
        Hypothesis("x y z", score=-2.0, log_prob=-803.0),
        Hypothesis("x y z", score=-3.0, log_prob=-804.0),
    ]
    (drawn,), (searched,) = (by_least_risk([found], "chrf", drawn=how) for how in (True, False))
    assert [one.text for one in drawn] == ["x y z", "a b c"]
    assert [one.text for one in searched] == ["a b c", "x y z"]
    assert drawn[0].score == pytest.approx(200 / 3)  # the expected utility
    share = 1 / (1 + math.exp(-3) + math.exp(-4))
    assert searched[0].score == pytest.approx(100 * share)
    assert searched[0].log_prob == -800.0


def test_every_line_has_its_own_candidates() -> None:
    ranked = by_least_risk([hypotheses("a"), [Hypothesis("", 0.0)], hypotheses("b", "b")], "bleu", drawn=True)
    assert [[one.text for one in many] for many in ranked] == [["a"], [""], ["b"]]
