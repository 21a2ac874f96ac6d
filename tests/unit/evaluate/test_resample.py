from __future__ import annotations

import numpy as np
import pytest

from seqloom.evaluate.resample import interval, resampled_totals


def test_each_sample_has_as_many_sentences_as_the_corpus() -> None:
    totals = resampled_totals(np.ones((50, 2)), bootstrap=20, seed=0)
    assert totals.shape == (20, 2)
    assert (totals == 50).all()


def test_the_same_seed_draws_the_same_sentences() -> None:
    statistics = np.random.default_rng(0).random((30, 3))
    one = resampled_totals(statistics, bootstrap=10, seed=4)
    assert np.allclose(resampled_totals(2 * statistics, bootstrap=10, seed=4), 2 * one)
    assert not np.allclose(resampled_totals(statistics, bootstrap=10, seed=5), one)


def test_samples_have_the_mean_and_spread_of_the_bootstrap() -> None:
    values = np.arange(200.0)[:, None]
    totals = resampled_totals(values, bootstrap=4000, seed=0)
    assert totals.mean() == pytest.approx(values.sum(), rel=0.01)
    assert totals.std() == pytest.approx(values.std() * 200**0.5, rel=0.05)


def test_the_interval_contains_95_percent() -> None:
    assert interval(np.arange(1001.0)) == pytest.approx((25, 975))
