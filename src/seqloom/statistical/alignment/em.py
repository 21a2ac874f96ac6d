"""Expectation maximisation of word translation probabilities under a model of positions, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from seqloom.statistical.alignment.bitext import Bitext, Chunk, Ids, Reals
from seqloom.statistical.alignment.position import ExpectedLinks, PositionModel, Visits

_LEAST = 1e-12  # keeps a target word explicable when EM has taken all its probability away


@dataclass(frozen=True, slots=True)
class Translations:
    """t(f | e) of every word pair that occurs, (P,), and of the null word, (V,)."""

    words: Reals
    null: Reals

    @classmethod
    def uniform(cls, bitext: Bitext) -> Translations:
        """The start of EM: every target word is equally probable, whatever the source word."""
        share = 1 / max(1, len(np.unique(bitext.target)))
        return cls(np.full(len(bitext.source), share), np.full(bitext.target_size, share))


@dataclass(slots=True)
class Direction:
    """A corpus that is explained in one direction, and what explains it."""

    bitext: Bitext
    translations: Translations
    positions: PositionModel
    prior: float  # of a symmetric Dirichlet distribution over the translations of a word; 0 = none

    def learn(self, words: Reals, null: Reals, visits: Iterable[Visits]) -> None:
        """The M-step from expected counts of word pairs, of words from the null word, and of positions."""
        self.translations = Translations(
            _normalised(words, self.bitext.source, self.bitext.source_size, self.prior),
            _normalised(null, np.zeros(len(null), dtype=np.int32), 1, self.prior),
        )
        self.positions.learn(visits)


def _normalised(counts: Reals, givens: Ids, size: int, prior: float) -> Reals:
    """Probabilities per given word: shares of the counts, or under a prior exp E[log t].

    The latter (variational Bayes) takes from what was seen rarely: by its share alone, a source word that
    occurs once explains whatever stands in its sentence.
    """
    totals = _tally(givens, counts, size)
    if not prior:
        return np.maximum(counts / np.maximum(totals, _LEAST)[givens], _LEAST)
    kinds = np.bincount(givens, minlength=size)
    most = _digamma(totals + prior * np.maximum(kinds, 1))
    return np.maximum(np.exp(_digamma(counts + prior) - most[givens]), _LEAST)


def _tally(places: Ids, weights: Reals, size: int) -> Reals:
    return np.bincount(places, weights, size).astype(np.float64, copy=False)


def _digamma(values: Reals) -> Reals:
    found: Reals = torch.digamma(torch.from_numpy(values)).numpy()
    return found


class Counts(NamedTuple):
    """The expected counts of a chunk."""

    words: Reals  # one per word pair of the chunk
    null: Reals  # one per target word of the vocabulary
    visits: list[Visits]
    log_likelihood: float


def posteriors(direction: Direction, number: int) -> list[ExpectedLinks]:
    """What the E-step finds in each block of the chunk of that number."""
    chunk = direction.bitext.chunks[number]
    words = direction.translations.words[chunk.words][chunk.links]
    return [
        direction.positions.expect(block.view(words), direction.translations.null[block.target])
        for block in chunk.blocks
    ]


def iterate(
    directions: Sequence[Direction],
    pool: ThreadPoolExecutor,
    *,
    agree: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> list[float]:
    """One iteration of EM; the log-likelihood of each direction before it.

    The chunks, and the order in which their counts are added, do not depend on the number of threads.
    """

    def expect(number: int) -> list[Counts]:
        found = [posteriors(direction, number) for direction in directions]
        if agree:
            found = _agreed(*found)
        return [
            _counted(direction.bitext.chunks[number], some, direction.bitext.target_size)
            for direction, some in zip(directions, found, strict=True)
        ]

    sums = [_Sums(direction.bitext) for direction in directions]
    chunks = directions[0].bitext.chunks
    for chunk, found in zip(chunks, pool.map(expect, range(len(chunks))), strict=True):
        for total, counts in zip(sums, found, strict=True):
            total.add(chunk.words, counts)
        if on_progress:
            on_progress(chunk.pairs)
    for direction, total in zip(directions, sums, strict=True):
        direction.learn(total.words, total.null, total.visits)
    return [total.log_likelihood for total in sums]


def _agreed(forward: list[ExpectedLinks], backward: list[ExpectedLinks]) -> list[list[ExpectedLinks]]:
    """Posteriors of links in which both directions believe: their product (Liang, Taskar & Klein 2006)."""
    found: list[list[ExpectedLinks]] = [[], []]
    for one, other in zip(forward, backward, strict=True):
        links = one.links * other.links.swapaxes(1, 2)
        found[0].append(one._replace(links=links))
        found[1].append(other._replace(links=links.swapaxes(1, 2)))
    return found


def _counted(chunk: Chunk, found: list[ExpectedLinks], target_size: int) -> Counts:
    links = np.empty(len(chunk.links), dtype=np.float64)
    for block, expected in zip(chunk.blocks, found, strict=True):
        block.view(links)[...] = expected.links
    null = np.concatenate([expected.null.ravel() for expected in found])
    return Counts(
        _tally(chunk.links, links, len(chunk.words)),
        _tally(chunk.target, null, target_size),
        [(block.shape, expected.visits) for block, expected in zip(chunk.blocks, found, strict=True)],
        sum(expected.log_likelihood for expected in found),
    )


class _Sums:
    """The expected counts of all chunks of a corpus."""

    def __init__(self, bitext: Bitext) -> None:
        self.words, self.null = np.zeros(len(bitext.source)), np.zeros(bitext.target_size)
        self.visits: list[Visits] = []
        self.log_likelihood = 0.0

    def add(self, words: Ids, counts: Counts) -> None:
        self.words[words] += counts.words
        self.null += counts.null
        self.visits += counts.visits
        self.log_likelihood += counts.log_likelihood
