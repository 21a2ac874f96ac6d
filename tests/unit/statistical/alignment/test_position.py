"""Tests of position models: normalisation and the M step."""

from __future__ import annotations

import numpy as np
import pytest

from seqloom.statistical.alignment.hmm import HmmPositions
from seqloom.statistical.alignment.position import (
    DiagonalPositions,
    FreePositions,
    PositionMixture,
    UniformPositions,
    sum_by_shape,
)


@pytest.mark.parametrize(
    "model", [UniformPositions(), DiagonalPositions(), FreePositions(), FreePositions(UniformPositions(), 1.0)]
)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 2)])
def test_priors_sum_to_one(model: PositionMixture, shape: tuple[int, int]) -> None:
    np.testing.assert_allclose(model.prior(shape).sum(axis=1), 1)
    assert model.prior(shape).shape == (shape[0], shape[1] + 1)


def test_diagonal_recovers_the_tension() -> None:
    true, learner = DiagonalPositions(tension=7.5), DiagonalPositions()
    learner.m_step([(shape, 100 * true.prior(shape)) for shape in [(4, 5), (8, 8), (10, 6)]])
    assert learner.tension == pytest.approx(7.5, abs=1e-6)


def test_diagonal_is_unchanged_without_data() -> None:
    learner = DiagonalPositions()
    learner.m_step([((1, 1), np.array([[3.0, 0.0]]))])
    assert learner.tension == 4.0


def test_ibm_2_interpolates_visits_and_the_common_form() -> None:
    visits = np.array([[0.0, 10.0, 0.0], [10.0, 0.0, 0.0]])
    free, drawn = FreePositions(UniformPositions(), weight=0.0), FreePositions(UniformPositions(), weight=30.0)
    for model in (free, drawn):
        model.m_step([((2, 2), visits)])
    np.testing.assert_allclose(free.prior((2, 2)), [[0, 1, 0], [1, 0, 0]])
    np.testing.assert_allclose(drawn.prior((2, 2)), [[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]])


def test_visits_of_one_shape_are_added() -> None:
    one = np.ones((1, 2))
    total = sum_by_shape([((1, 1), one), ((1, 2), 5 * one), ((1, 1), 2 * one)])
    np.testing.assert_array_equal(total[1, 1], 3 * one)
    assert one[0, 0] == 1


def test_hmm_probabilities_sum_to_one() -> None:
    hmm = HmmPositions(width=2)
    hmm.jumps, hmm.starts = np.array([0.1, 1, 2, 5, 0.3]), np.array([3.0, 1, 0.5])
    for size in (1, 2, 9):
        np.testing.assert_allclose(hmm.transitions(size).sum(axis=1), 1)
        assert hmm.start(size).sum() == pytest.approx(1)
    far = hmm.transitions(9)[0]
    np.testing.assert_allclose(far[2:], far[2])  # jumps of 2 or more share one class


def test_hmm_recovers_the_jumps() -> None:
    true, learner = HmmPositions(width=2), HmmPositions(width=2)
    true.jumps, true.starts = np.array([0.2, 1.0, 0.5, 4.0, 0.4]), np.array([5.0, 1.0, 0.5])
    visits = [((1, n), np.vstack([true.start(n), true.transitions(n)])) for n in (3, 5, 8)]
    for _ in range(40):
        learner.m_step(visits)
    np.testing.assert_allclose(learner.transitions(6), true.transitions(6), atol=1e-4)
    np.testing.assert_allclose(learner.start(6), true.start(6), atol=1e-4)


def test_a_long_sentence_does_not_underflow() -> None:
    found = HmmPositions().e_step(np.full((1, 500, 300), 1e-9), np.full((1, 500), 1e-9))
    np.testing.assert_allclose(found.links.sum(axis=2) + found.null, 1)
    assert np.isfinite(found.log_likelihood)
