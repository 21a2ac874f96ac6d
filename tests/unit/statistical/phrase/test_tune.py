"""Tuning: hope leads fear afterwards, the best round wins, and the seed decides."""

from __future__ import annotations

import numpy as np
import pytest

from seqloom.statistical.phrase.bleu import Reference, bleu
from seqloom.statistical.phrase.features import FEATURES, UNKNOWN, start_weights
from seqloom.statistical.phrase.tune import ScoredCandidate, merged, mira, tune

RIGHT, NEAR, BAD = list("abcdef"), list("abcdex"), list("axcdyf")
GOOD = Reference(RIGHT)


def lists(seed: int, sentences: int = 8) -> list[ScoredCandidate]:
    """n-best lists in which the third feature tells good from bad and the others are noise."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(sentences):
        quality = random.integers(0, 5, 20)
        features = random.normal(size=(20, len(FEATURES)))
        features[:, UNKNOWN] = 3 - quality
        features[:, 2] = quality
        words = [RIGHT[: 2 + q] + ["x"] * (4 - q) for q in quality]
        found.append(ScoredCandidate(features, np.array([GOOD.counts(one) for one in words])))
    return found


def test_mira_finds_the_feature_that_matters() -> None:
    pools, weights = lists(1), np.zeros(len(FEATURES))
    moved = mira(pools, weights, np.random.default_rng(1))
    picked = [one.counts[int(np.argmax(one.features @ moved))] for one in pools]
    highest = [one.counts[np.argmax(bleu(one.counts, smooth=0.1))] for one in pools]
    assert bleu(np.sum(picked, axis=0)) == pytest.approx(float(bleu(np.sum(highest, axis=0))))
    assert moved[2] == max(moved)
    assert moved[UNKNOWN] == 0.0, "what it costs to pass a word through is not tuned"
    assert weights.sum() == 0.0, "the given weights stay as they were"


def test_the_weights_of_the_best_round_are_returned(messages: list[str]) -> None:
    """A decoder that is at its best in the second round, whatever the weights."""
    rounds: list[np.ndarray] = []
    best = [ScoredCandidate(np.zeros((1, len(FEATURES))), GOOD.counts(RIGHT)[None])]
    worse = [ScoredCandidate(np.zeros((1, len(FEATURES))), GOOD.counts(NEAR)[None])]

    def decode(weights: np.ndarray) -> list[ScoredCandidate]:
        rounds.append(weights)
        return best if len(rounds) == 2 else worse

    found, reached = tune(decode, start_weights(), rounds=9, seed=1)
    assert found is rounds[1] and reached == pytest.approx(100.0)
    assert len(rounds) == len(messages) == 5, "three rounds without a gain are enough"


def test_the_same_seed_gives_the_same_weights() -> None:
    zero = np.zeros(len(FEATURES))
    first, second, other = (mira(lists(1), zero, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_a_hypothesis_that_comes_again_is_not_counted_twice() -> None:
    one, two = lists(1, 1)[0], lists(2, 1)[0]
    both = merged(one, two)
    assert len(both.features) == 40
    again = merged(both, one)
    assert np.array_equal(again.features, both.features) and np.array_equal(again.counts, both.counts)


def test_an_empty_hypothesis_has_no_bleu() -> None:
    assert bleu(GOOD.counts([])) == 0.0
    assert bleu(GOOD.counts(BAD)) == 0.0  # no four words in a row
