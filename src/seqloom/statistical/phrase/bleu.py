"""BLEU as a sum of counts (Papineni et al. 2002): matches and totals of 1- to 4-grams, and the two lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

ORDER = 4
SIZE = 2 * ORDER + 2

Counts = NDArray[np.float64]  # (..., SIZE): matches and totals per order, hypothesis and reference length
Tokens = Sequence[Hashable]


class Reference:
    """The n-grams of one reference, counted once for many hypotheses."""

    def __init__(self, tokens: Tokens) -> None:
        self.length = len(tokens)
        self._ngrams = _ngrams(tokens)

    def counts(self, tokens: Tokens) -> Counts:
        """Return the counts of a hypothesis, which can be added up."""
        matches = [0] * ORDER
        for ngram, count in _ngrams(tokens).items():
            matches[len(ngram) - 1] += min(count, self._ngrams[ngram])
        totals = [max(len(tokens) - order, 0) for order in range(ORDER)]
        return np.array([*matches, *totals, len(tokens), self.length], dtype=np.float64)


def bleu(counts: Counts, *, smooth: float = 0.0) -> NDArray[np.float64]:
    """Return BLEU from 0 to 1 of every sum of counts, (..., SIZE); `smooth` is added to 2- to 4-gram counts."""
    added = np.array([0.0] + [smooth] * (ORDER - 1))
    matches, totals = counts[..., :ORDER] + added, counts[..., ORDER : 2 * ORDER] + added
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(totals > 0, matches / np.maximum(totals, 1e-9), 0.0)
        log_mean = np.log(precision).mean(axis=-1)
        brevity = np.minimum(0.0, 1.0 - counts[..., -1] / np.maximum(counts[..., -2], 1e-9))
    return np.asarray(np.exp(log_mean + brevity))


def _ngrams(tokens: Tokens) -> Counter[tuple[Hashable, ...]]:
    return Counter(
        tuple(tokens[start : start + order])
        for order in range(1, ORDER + 1)
        for start in range(len(tokens) - order + 1)
    )
