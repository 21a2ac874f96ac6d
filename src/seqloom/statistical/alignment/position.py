"""Where a target word finds its source word: the part in which IBM 1, IBM 2 and its diagonal form differ.

All explain the word f_j by one source word e_i or by the null word (Brown et al. 1993):

    p(f_j) = p(null | j) t(f_j | null) + Σ_i p(i | j, S, T) t(f_j | e_i)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from seqloom.statistical.alignment.bitext import Reals

Shape = tuple[int, int]  # T, S
Visits = tuple[Shape, Reals]

_TENSIONS = (0.1, 30.0)  # least and greatest
_NEWTON = 12  # steps


class ExpectedLinks(NamedTuple):
    """What the E-step finds in a block."""

    links: Reals  # (B, T, S) p(a_j = i | both sentences)
    null: Reals  # (B, T)
    log_likelihood: float
    visits: Reals  # what the positions learn from, summed over the pairs of the block


class PositionModel(Protocol):
    """A model of positions: it weighs the word translation probabilities, and learns from what comes of it."""

    def expect(self, words: Reals, null: Reals) -> ExpectedLinks:
        """Posteriors of a block from t(f_j | e_i), (B, T, S), and t(f_j | null), (B, T)."""
        ...

    def learn(self, visits: Iterable[Visits]) -> None:
        """The M-step."""
        ...


class PositionMixture(ABC):
    """Positions that do not depend on each other."""

    @abstractmethod
    def prior(self, shape: Shape) -> Reals:
        """p(i | j, S, T), (T, S + 1); the last column is the null word's."""

    @abstractmethod
    def learn(self, visits: Iterable[Visits]) -> None:
        """The M-step, where there are parameters."""

    def expect(self, words: Reals, null: Reals) -> ExpectedLinks:
        """Each word's probabilities, divided by their sum."""
        prior = self.prior((words.shape[1], words.shape[2]))
        links = words * prior[:, :-1]
        empty = null * prior[:, -1]
        total = links.sum(axis=2) + empty
        links /= total[:, :, None]
        empty /= total
        visits = np.hstack([links.sum(axis=0), empty.sum(axis=0)[:, None]])
        return ExpectedLinks(links, empty, float(np.log(total).sum()), visits)


class UniformPositions(PositionMixture):
    """IBM 1: all positions are equally probable, and the null word is one of them."""

    def prior(self, shape: Shape) -> Reals:
        return np.full((shape[0], shape[1] + 1), 1 / (shape[1] + 1))

    def learn(self, visits: Iterable[Visits]) -> None:
        """Nothing: there are no parameters."""


class DiagonalPositions(PositionMixture):
    """IBM 2 with one parameter: p(i | j) ∝ exp(-λ |i/S - j/T|), and a fixed one of null (Dyer et al. 2013)."""

    def __init__(self, null: float = 0.08, tension: float = 4.0) -> None:
        self.null, self.tension = null, tension

    def prior(self, shape: Shape) -> Reals:
        near = _near(_distance(shape), self.tension) * (1 - self.null)
        return np.hstack([near, np.full((shape[0], 1), self.null)])

    def learn(self, visits: Iterable[Visits]) -> None:
        """The tension at which the expected distance is the observed one (dQ/dλ = 0).

        Newton's method, halving what brackets it where a step leads out.
        """
        rows = [(_distance(shape), found[:, :-1]) for shape, found in summed(visits).items()]
        observed = sum(float((found * distance).sum()) for distance, found in rows)
        low, high = _TENSIONS
        for _ in range(_NEWTON):
            moments = [_moments(distance, self.tension, found.sum(axis=1)) for distance, found in rows]
            excess = sum(mean for mean, _ in moments) - observed
            variance = sum(variance for _, variance in moments)
            if variance <= 0:
                break
            low, high = (self.tension, high) if excess > 0 else (low, self.tension)
            guess = self.tension + excess / variance
            self.tension = guess if low < guess < high else (low + high) / 2


def _distance(shape: Shape) -> Reals:
    """|i/S - j/T| with i and j from 1, (T, S)."""
    rows, columns = (np.arange(1, size + 1) / size for size in shape)
    return np.abs(rows[:, None] - columns)


def _near(distance: Reals, tension: float) -> Reals:
    near = np.exp(-tension * distance)
    shares: Reals = near / near.sum(axis=1, keepdims=True)
    return shares


def _moments(distance: Reals, tension: float, weights: Reals) -> tuple[float, float]:
    """The mean and the variance of the distance at that tension, summed over rows of these weights."""
    near = _near(distance, tension)
    mean = (near * distance).sum(axis=1)
    return float(weights @ mean), float(weights @ ((near * distance**2).sum(axis=1) - mean**2))


class FreePositions(PositionMixture):
    """IBM 2: a probability of its own for every i, j, S and T.

    Few pairs have the same lengths, so each is drawn to what all shapes have in common, the diagonal form, by
    `weight` words that are taken to have been seen at each j.
    """

    def __init__(self, common: PositionMixture | None = None, weight: float = 10.0) -> None:
        self.common, self.weight = common or DiagonalPositions(), weight
        self.table: dict[Shape, Reals] = {}

    def prior(self, shape: Shape) -> Reals:
        return self.table[shape] if shape in self.table else self.common.prior(shape)

    def learn(self, visits: Iterable[Visits]) -> None:
        """Shares of the visits of each shape."""
        total = summed(visits)
        self.common.learn(total.items())
        for shape, found in total.items():
            counts = found + self.weight * self.common.prior(shape)
            self.table[shape] = counts / counts.sum(axis=1, keepdims=True)


def summed(visits: Iterable[Visits]) -> dict[Shape, Reals]:
    """The visits of all blocks of one shape together."""
    total: dict[Shape, Reals] = {}
    for shape, found in visits:
        total[shape] = total[shape] + found if shape in total else found
    return total
