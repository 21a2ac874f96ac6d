"""Alignment by a hidden Markov model: the source position of a word depends on that of the previous word.

Vogel et al. 1996, with the null word of Och & Ney 2003: each source position i has an empty twin that keeps i.
With W the widest jump that has a separate probability,

    p(i | i', S) = (1 - p0) c(i - i') / Σ_k c(k - i')        p(empty i | i') = p0 [i = i']

where c(d) = c(W) for d > W, and c(d) = c(-W) for d < -W.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from seqloom.statistical.alignment.bitext import Reals
from seqloom.statistical.alignment.position import ExpectedLinks, Visits

Classes = NDArray[np.intp]

_ROUNDS = 10
_SMOOTHING = 1e-6  # pulls weights towards 1 where (almost) nothing was observed, and keeps them above 0


class HmmPositions:
    """The transitions of the HMM. `visits` of a block: a row for the first word and one per source position."""

    def __init__(self, null: float = 0.2, width: int = 7) -> None:
        self.null, self.width = null, width
        self.jumps = np.ones(2 * width + 1)
        self.starts = np.ones(width + 1)

    def start(self, size: int) -> Reals:
        """Return p(i) of the first word, (S,), without the null word."""
        weights = self.starts[self._start_classes(size)]
        probs: Reals = weights / weights.sum()
        return probs

    def transitions(self, size: int) -> Reals:
        """Return p(i | i'), (S, S), without the null word."""
        weights = self.jumps[self._classes(size)]
        probs: Reals = weights / weights.sum(axis=1, keepdims=True)
        return probs

    def _classes(self, size: int) -> Classes:
        positions = np.arange(size)
        classes: Classes = np.clip(positions - positions[:, None], -self.width, self.width) + self.width
        return classes

    def _start_classes(self, size: int) -> Classes:
        return np.minimum(np.arange(size), self.width)

    def e_step(self, words: Reals, null: Reals) -> ExpectedLinks:
        """Run forward-backward, scaled at each word so that the forward probabilities sum to 1."""
        count, length, size = words.shape
        transitions, start = self.transitions(size) * (1 - self.null), self.start(size)
        alpha = np.empty((length, count, 2, size))
        scale = np.empty((length, count))
        previous = np.broadcast_to(start, (count, size))
        for j in range(length):
            predicted = previous @ transitions if j else previous * (1 - self.null)
            np.multiply(predicted, words[:, j], out=alpha[j, :, 0])
            np.multiply(previous, self.null * null[:, j, None], out=alpha[j, :, 1])
            scale[j] = alpha[j].sum(axis=(1, 2))
            alpha[j] /= scale[j, :, None, None]
            previous = alpha[j].sum(axis=1)
        visits = np.zeros((size + 1, size))
        beta = np.ones((count, size))  # of a position and of its empty twin
        for j in range(length - 1, -1, -1):
            real = words[:, j] * beta / scale[j, :, None]
            empty = (self.null * null[:, j] / scale[j])[:, None] * beta
            alpha[j] *= beta[:, None]
            if j:
                previous = alpha[j - 1].sum(axis=1)
                visits[1:] += previous.T @ real * transitions
                beta = real @ transitions.T + empty
        visits[0] = alpha[0].sum(axis=(0, 1))
        links = alpha[:, :, 0].swapaxes(0, 1)
        return ExpectedLinks(links, alpha[:, :, 1].sum(axis=2).T, float(np.log(scale).sum()), visits)

    def m_step(self, visits: Iterable[Visits]) -> None:
        """Update the weights of starts and jumps to increase the probability of the expected visits.

        Each row normalises the weights over a different range of jumps, so there is no closed form; this is the
        minorisation-maximisation of Hunter (2004) for such ratios, which never decreases the objective.
        """
        rows: dict[int, Reals] = {}
        for (_, size), counts in visits:
            rows[size] = rows[size] + counts if size in rows else counts
        starts = [(self._start_classes(size)[None], counts[:1]) for size, counts in rows.items()]
        jumps = [(self._classes(size), counts[1:]) for size, counts in rows.items()]
        self.starts = _fit(self.starts, starts)
        self.jumps = _fit(self.jumps, jumps)


def _fit(weights: Reals, rows: list[tuple[Classes, Reals]]) -> Reals:
    """Return weights c that increase Σ n(r, k) log(c(class(r, k)) / Σ_k' c(class(r, k')))."""
    size = len(weights)
    wins = sum((np.bincount(classes.ravel(), n.ravel(), size) for classes, n in rows), np.zeros(size))
    for _ in range(_ROUNDS):
        expected = np.zeros(size)
        for classes, n in rows:
            rate = n.sum(axis=1) / weights[classes].sum(axis=1)
            expected += np.bincount(
                classes.ravel(), np.broadcast_to(rate[:, None], classes.shape).ravel(), size
            )
        weights = (wins + _SMOOTHING) / (expected + _SMOOTHING)
    return weights
