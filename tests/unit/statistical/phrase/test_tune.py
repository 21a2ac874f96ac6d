"""Tests of tuning: MIRA, the best round and the seed."""

from __future__ import annotations

import numpy as np
import pytest

from seqloom.statistical.phrase.bleu import Reference, bleu
from seqloom.statistical.phrase.features import FEATURES, UNKNOWN, start_weights
from seqloom.statistical.phrase.tune import NBestList, merge, mira, tune

RIGHT, NEAR, BAD = list("abcdef"), list("abcdex"), list("axcdyf")
GOOD = Reference(RIGHT)


def lists(seed: int, sentences: int = 8) -> list[NBestList]:
    """Return n-best lists in which the third feature separates good from bad and the others are noise."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(sentences):
        quality = random.integers(0, 5, 20)
        features = random.normal(size=(20, len(FEATURES)))
        features[:, UNKNOWN] = 3 - quality
        features[:, 2] = quality
        words = [RIGHT[: 2 + q] + ["x"] * (4 - q) for q in quality]
        found.append(NBestList(features, np.array([GOOD.counts(one) for one in words])))
    return found


def test_mira_finds_the_relevant_feature() -> None:
    pools, weights = lists(1), np.zeros(len(FEATURES))
    moved = mira(pools, weights, np.random.default_rng(1))
    picked = [one.counts[int(np.argmax(one.features @ moved))] for one in pools]
    highest = [one.counts[np.argmax(bleu(one.counts, smooth=0.1))] for one in pools]
    assert bleu(np.sum(picked, axis=0)) == pytest.approx(float(bleu(np.sum(highest, axis=0))))
    assert moved[2] == max(moved)
    assert moved[UNKNOWN] == 0.0, "what it costs to pass a word through is not tuned"
    assert weights.sum() == 0.0, "the given weights stay as they were"


def test_weights_of_the_best_round_are_returned(messages: list[str]) -> None:
    """The decoder is best in the second round, whatever the weights."""
    rounds: list[np.ndarray] = []
    best = [NBestList(np.zeros((1, len(FEATURES))), GOOD.counts(RIGHT)[None])]
    worse = [NBestList(np.zeros((1, len(FEATURES))), GOOD.counts(NEAR)[None])]

    def decode(weights: np.ndarray) -> list[NBestList]:
        rounds.append(weights)
        return best if len(rounds) == 2 else worse

    found, reached = tune(decode, start_weights(), rounds=9, seed=1)
    assert found is rounds[1] and reached == pytest.approx(100.0)
    assert len(rounds) == len(messages) == 5, "stops after three rounds without a gain"


def test_tuning_is_deterministic() -> None:
    zero = np.zeros(len(FEATURES))
    first, second, other = (mira(lists(1), zero, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_duplicate_hypotheses_are_merged() -> None:
    one, two = lists(1, 1)[0], lists(2, 1)[0]
    both = merge(one, two)
    assert len(both.features) == 40
    again = merge(both, one)
    assert np.array_equal(again.features, both.features) and np.array_equal(again.counts, both.counts)


def test_empty_hypothesis_has_bleu_zero() -> None:
    assert bleu(GOOD.counts([])) == 0.0
    assert bleu(GOOD.counts(BAD)) == 0.0  # no matching 4-gram
