"""Bootstrap resampling of per-sentence statistics, shared by all metrics, intervals and paired tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

COVERAGE = 0.95


def resampled_totals(statistics: Matrix, *, bootstrap: int, seed: int) -> Matrix:
    """Return sums of the (N, K) statistics over N sentences drawn with replacement, (bootstrap, K).

    The drawn sentences depend only on N and the seed, so two systems or metrics with the same seed are measured
    on the same samples. This makes a comparison paired.
    """
    sentences = len(statistics)
    generator = np.random.default_rng(seed)
    totals = np.empty((bootstrap, statistics.shape[1]))
    for row in totals:  # row by row, because all weights at once would take bootstrap x N numbers
        drawn = generator.integers(0, sentences, size=sentences)
        row[:] = np.bincount(drawn, minlength=sentences) @ statistics
    return totals


def interval(samples: Matrix) -> tuple[float, float]:
    """Return the bounds of the middle 95 % of the samples."""
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return float(low), float(high)
