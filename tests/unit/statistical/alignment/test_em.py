"""Tests of one EM iteration against values computed by hand, with a prior and with agreement."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from seqloom.statistical.alignment.bitext import build_bitext
from seqloom.statistical.alignment.em import Direction, Translations, iterate
from seqloom.statistical.alignment.position import UniformPositions

PAIRS = [([0, 1], [0]), ([1], [0, 1])]
# As (S, T) per pair, with uniform probabilities: p(i | j) = 1 / (S + 1) and p(j | i) = 1 / (T + 1).
FORWARD = {(0, 0): 1 / 3, (1, 0): 1 / 3 + 1 / 2, (1, 1): 1 / 2}
BACKWARD = {(0, 0): 1 / 2, (1, 0): 1 / 2 + 1 / 3, (1, 1): 1 / 3}
BOTH = {(0, 0): 1 / 6, (1, 0): 1 / 6 + 1 / 6, (1, 1): 1 / 6}


def after_one_iteration(*, prior: float, agree: bool) -> list[Direction]:
    with ThreadPoolExecutor(1) as pool:
        bitext = build_bitext(PAIRS, pool)
        directions = [
            Direction(side, Translations.uniform(side), UniformPositions(), prior)
            for side in (bitext, bitext.swapped())
        ]
        iterate(directions, pool, agree=agree)
    return directions


def relative_frequencies(counts: dict[tuple[int, int], float], given: int) -> list[float]:
    totals: dict[int, float] = {}
    for words, count in counts.items():
        totals[words[given]] = totals.get(words[given], 0) + count
    return [count / totals[words[given]] for words, count in counts.items()]


@pytest.mark.parametrize(
    ("agree", "forward", "backward"), [(False, FORWARD, BACKWARD), (True, BOTH, BOTH)], ids=["alone", "agree"]
)
def test_translations_are_relative_frequencies(
    agree: bool, forward: dict[tuple[int, int], float], backward: dict[tuple[int, int], float]
) -> None:
    forward_model, backward_model = after_one_iteration(prior=0.0, agree=agree)
    np.testing.assert_allclose(forward_model.translations.words, relative_frequencies(forward, 0))
    np.testing.assert_allclose(backward_model.translations.words, relative_frequencies(backward, 1))


def test_null_word_gets_the_remaining_probability() -> None:
    forward_model, _ = after_one_iteration(prior=0.0, agree=False)
    counts = np.array([1 / 3 + 1 / 2, 1 / 2])
    np.testing.assert_allclose(forward_model.translations.null, counts / counts.sum())


def test_prior_gives_exp_of_expected_log() -> None:
    forward_model, _ = after_one_iteration(prior=0.1, agree=False)
    digamma = lambda value: float(torch.digamma(torch.tensor(value, dtype=torch.float64)))  # noqa: E731
    total = FORWARD[1, 0] + FORWARD[1, 1] + 2 * 0.1
    expected = np.exp(digamma(FORWARD[1, 1] + 0.1) - digamma(total))
    assert forward_model.translations.words[2] == pytest.approx(expected)
    assert forward_model.translations.words[2] < relative_frequencies(FORWARD, 0)[2]  # discounted
