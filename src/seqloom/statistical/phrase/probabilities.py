"""Phrase translation and orientation probabilities from counts.

Relative frequencies overestimate phrase pairs that were seen once, often with probability 1. Kneser-Ney
discounting, applied to phrase tables by Foster, Kuhn & Johnson 2006:

    φ(y|x) = (c(x,y) - D(c)) / c(x)  +  Σ_y' D(c(x,y')) / c(x) · n(y) / Σ n

D is one of three discounts for counts of 1, 2 and more (Chen & Goodman 1999), and n(y) is the number of
distinct phrases that y was seen with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def discounts(counts: Ints) -> Floats:
    """Return D for counts of 0, 1, 2, and 3 or more, given the counts of all pairs."""
    seen = np.bincount(np.minimum(counts, 5), minlength=6).astype(float)
    if not seen[1:5].all():
        return np.array([0.0, 0.5, 0.5, 0.5])  # too little data for an estimate
    y = seen[1] / (seen[1] + 2 * seen[2])
    estimates = [k - (k + 1) * y * seen[k + 1] / seen[k] for k in (1, 2, 3)]
    return np.array([0.0, *np.clip(estimates, 0.0, (1.0, 2.0, 3.0))])


def log_phrase_probabilities(given: Ints, phrase: Ints, counts: Ints, *, smooth: bool) -> Floats:
    """Return log φ(phrase|given) of every pair of phrase numbers, with these counts."""
    total = np.bincount(given, weights=counts)[given]
    if not smooth:
        return np.log(counts / total)
    discount = discounts(counts)[np.minimum(counts, 3)]
    freed = np.bincount(given, weights=discount)[given]
    diversity = np.bincount(phrase)[phrase] / len(phrase)
    return np.log((counts - discount + freed * diversity) / total)


def log_orientations(pair: Ints, orientation: Ints, strength: float) -> Floats:
    """Return log P(orientation | pair), (pairs, 3), with `strength` pseudo-counts of the corpus average."""
    size = int(pair.max(initial=-1)) + 1
    counts = np.bincount(pair * 3 + orientation, minlength=3 * size).reshape(size, 3)
    overall = (counts.sum(axis=0) + 1) / (counts.sum() + 3)
    return np.asarray(np.log((counts + strength * overall) / (counts.sum(axis=1, keepdims=True) + strength)))
