"""Alignment by a hidden Markov model: where a word finds its source depends on where the word before found it.

Vogel et al. 1996, with the null word of Och & Ney 2003: beside each source position i stands an empty one that
remembers i. With W the widest jump that has a probability of its own,

    p(i | i', S) = (1 - p0) c(i - i') / Σ_k c(k - i')        p(empty i | i') = p0 [i = i']

where c(d) = c(W) for d > W, and likewise on the left.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from seqloom.statistical.alignment.bitext import Reals
from seqloom.statistical.alignment.position import ExpectedLinks, Visits

Classes = NDArray[np.intp]

_ROUNDS = 10
_DRAW = 1e-6  # draws weights to 1 where (almost) nothing was seen, and keeps them above 0


class Jumps:
    """The HMM's transitions. `visits` of a block: a row for the first word and a row per source position."""

    def __init__(self, null: float = 0.2, width: int = 7) -> None:
        self.null, self.width = null, width
        self.jumps = np.ones(2 * width + 1)
        self.starts = np.ones(width + 1)

    def start(self, size: int) -> Reals:
        """p(i) of the first word, (S,), without the null word."""
        weights = self.starts[self._start_classes(size)]
        shares: Reals = weights / weights.sum()
        return shares

    def transitions(self, size: int) -> Reals:
        """p(i | i'), (S, S), without the null word."""
        weights = self.jumps[self._classes(size)]
        shares: Reals = weights / weights.sum(axis=1, keepdims=True)
        return shares

    def _classes(self, size: int) -> Classes:
        places = np.arange(size)
        found: Classes = np.clip(places - places[:, None], -self.width, self.width) + self.width
        return found

    def _start_classes(self, size: int) -> Classes:
        return np.minimum(np.arange(size), self.width)

    def expect(self, words: Reals, null: Reals) -> ExpectedLinks:
        """Forward-backward, scaled at each word so that the forward probabilities sum to 1."""
        count, length, size = words.shape
        move, start = self.transitions(size) * (1 - self.null), self.start(size)
        ahead = np.empty((length, count, 2, size))
        scale = np.empty((length, count))
        before = np.broadcast_to(start, (count, size))
        for j in range(length):
            np.multiply(before @ move if j else before * (1 - self.null), words[:, j], out=ahead[j, :, 0])
            np.multiply(before, self.null * null[:, j, None], out=ahead[j, :, 1])
            scale[j] = ahead[j].sum(axis=(1, 2))
            ahead[j] /= scale[j, :, None, None]
            before = ahead[j].sum(axis=1)
        visits = np.zeros((size + 1, size))
        behind = np.ones((count, size))  # the future of a position, the same for its empty twin
        for j in range(length - 1, -1, -1):
            real = words[:, j] * behind / scale[j, :, None]
            empty = (self.null * null[:, j] / scale[j])[:, None] * behind
            ahead[j] *= behind[:, None]
            if j:
                before = ahead[j - 1].sum(axis=1)
                visits[1:] += before.T @ real * move
                behind = real @ move.T + empty
        visits[0] = ahead[0].sum(axis=(0, 1))
        links = ahead[:, :, 0].swapaxes(0, 1)
        return ExpectedLinks(links, ahead[:, :, 1].sum(axis=2).T, float(np.log(scale).sum()), visits)

    def learn(self, visits: Iterable[Visits]) -> None:
        """Weights of starts and of jumps at which the expected visits are more probable than before.

        Each row normalises the weights over another range of jumps, so there is no closed form; this is the
        minorisation-maximisation of Hunter (2004) for such ratios, which never goes down.
        """
        rows: dict[int, Reals] = {}
        for (_, size), found in visits:
            rows[size] = rows[size] + found if size in rows else found
        starts = [(self._start_classes(size)[None], found[:1]) for size, found in rows.items()]
        jumps = [(self._classes(size), found[1:]) for size, found in rows.items()]
        self.starts = _fit(self.starts, starts)
        self.jumps = _fit(self.jumps, jumps)


def _fit(weights: Reals, rows: list[tuple[Classes, Reals]]) -> Reals:
    """Weights c that raise Σ n(r, k) log(c(class(r, k)) / Σ_k' c(class(r, k')))."""
    size = len(weights)
    wins = sum((np.bincount(kinds.ravel(), n.ravel(), size) for kinds, n in rows), np.zeros(size))
    for _ in range(_ROUNDS):
        chances = np.zeros(size)
        for kinds, n in rows:
            share = n.sum(axis=1) / weights[kinds].sum(axis=1)
            chances += np.bincount(kinds.ravel(), np.broadcast_to(share[:, None], kinds.shape).ravel(), size)
        weights = (wins + _DRAW) / (chances + _DRAW)
    return weights
