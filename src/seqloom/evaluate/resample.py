"""Bootstrap resampling of per-sentence statistics: one draw serves every metric, interval and paired test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

COVERAGE = 0.95


def resampled_totals(statistics: Matrix, *, bootstrap: int, seed: int) -> Matrix:
    """(bootstrap, K): the sums of the (N, K) statistics over N sentences drawn with replacement.

    Which sentences are drawn depends on N and the seed alone, so that two systems, or two metrics, called
    with the same seed are measured on the same samples. That is what makes a comparison paired.
    """
    sentences = len(statistics)
    generator = np.random.default_rng(seed)
    totals = np.empty((bootstrap, statistics.shape[1]))
    for row in totals:  # row by row: all weights at once would take bootstrap x N numbers
        drawn = generator.integers(0, sentences, size=sentences)
        row[:] = np.bincount(drawn, minlength=sentences) @ statistics
    return totals


def interval(samples: Matrix) -> tuple[float, float]:
    """The bounds between which the middle 95 % of the samples lie."""
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return float(low), float(high)
