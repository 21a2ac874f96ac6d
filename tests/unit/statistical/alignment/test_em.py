"""One iteration of EM, computed by hand: with a prior, and with directions that have to agree."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from seqloom.statistical.alignment.bitext import lay_out
from seqloom.statistical.alignment.em import Direction, Translations, iterate
from seqloom.statistical.alignment.position import UniformPositions

PAIRS = [([0, 1], [0]), ([1], [0, 1])]
# As (S, T) per pair, with uniform probabilities: p(i | j) = 1 / (S + 1) and p(j | i) = 1 / (T + 1).
FORWARD = {(0, 0): 1 / 3, (1, 0): 1 / 3 + 1 / 2, (1, 1): 1 / 2}
BACKWARD = {(0, 0): 1 / 2, (1, 0): 1 / 2 + 1 / 3, (1, 1): 1 / 3}
BOTH = {(0, 0): 1 / 6, (1, 0): 1 / 6 + 1 / 6, (1, 1): 1 / 6}


def after_one_iteration(*, prior: float, agree: bool) -> list[Direction]:
    with ThreadPoolExecutor(1) as pool:
        bitext = lay_out(PAIRS, pool)
        directions = [
            Direction(side, Translations.uniform(side), UniformPositions(), prior)
            for side in (bitext, bitext.turned())
        ]
        iterate(directions, pool, agree=agree)
    return directions


def shares(counts: dict[tuple[int, int], float], given: int) -> list[float]:
    totals: dict[int, float] = {}
    for words, count in counts.items():
        totals[words[given]] = totals.get(words[given], 0) + count
    return [count / totals[words[given]] for words, count in counts.items()]


@pytest.mark.parametrize(
    ("agree", "forward", "backward"), [(False, FORWARD, BACKWARD), (True, BOTH, BOTH)], ids=["alone", "agree"]
)
def test_translations_are_shares_of_the_expected_counts(
    agree: bool, forward: dict[tuple[int, int], float], backward: dict[tuple[int, int], float]
) -> None:
    ahead, back = after_one_iteration(prior=0.0, agree=agree)
    np.testing.assert_allclose(ahead.translations.words, shares(forward, 0))
    np.testing.assert_allclose(back.translations.words, shares(backward, 1))


def test_the_null_word_has_what_is_left() -> None:
    ahead, _ = after_one_iteration(prior=0.0, agree=False)
    counts = np.array([1 / 3 + 1 / 2, 1 / 2])
    np.testing.assert_allclose(ahead.translations.null, counts / counts.sum())


def test_a_prior_gives_the_exponential_of_the_expected_logarithm() -> None:
    ahead, _ = after_one_iteration(prior=0.1, agree=False)
    digamma = lambda value: float(torch.digamma(torch.tensor(value, dtype=torch.float64)))  # noqa: E731
    total = FORWARD[1, 0] + FORWARD[1, 1] + 2 * 0.1
    right = np.exp(digamma(FORWARD[1, 1] + 0.1) - digamma(total))
    assert ahead.translations.words[2] == pytest.approx(right)
    assert ahead.translations.words[2] < shares(FORWARD, 0)[2]  # it takes from what was seen rarely
