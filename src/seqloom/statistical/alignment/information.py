"""How much the two sides of a pair say about each other, measured without the counts of the pair itself.

A word aligner explains every pair that it was trained on, even a wrong one: a rare word is explained by
whatever is in its sentence. So each pair is scored with the expected counts c of all other pairs. With words
f_1 ... f_T of one side, e_1 ... e_S of the other, positions p(i | j), and μ imagined occurrences,

    t(f | e) = (c(e, f) + μ p(f)) / (c(e) + μ)
    score = Σ_j log((p(null | j) p(f_j) + Σ_i p(i | j) t(f_j | e_i)) / p(f_j)) / T

where the sum and T go over both directions: nats of information per word. The score is about 0 or negative if
the sentences have nothing to do with each other. Words that occur in no other pair say nothing and are not
counted. The positions are those of the aligner, averaged with uniform ones: sentences may change the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from seqloom.statistical.alignment.align import ITERATIONS, Aligner
from seqloom.statistical.alignment.bitext import CHUNK, Chunk, Ids, Numbers, Pair, PairBlock, Reals
from seqloom.statistical.alignment.em import Direction, posteriors
from seqloom.statistical.alignment.position import PositionMixture

PASSES = ITERATIONS + 2  # over all pairs: training, counting, scoring
_IMAGINED = 5.0  # μ

Progress = Callable[[int], None]
Scores = tuple[Numbers, Reals, Reals]  # pairs, their information, and the number of words that it comes from


def pair_information(pairs: Sequence[Pair], *, threads: int = 1, on_progress: Progress | None = None) -> Reals:
    """Return the score of every pair, (N,); NaN if it has no word that occurs in another pair.

    The aligner is IBM model 2 in its diagonal form. The scores do not depend on the number of threads. Equal
    pairs support each other, so remove duplicates first.
    """
    report = on_progress or (lambda pairs: None)
    aligner = Aligner(pairs, threads=threads)
    aligner.train("diagonal", on_progress=report)
    information, words = np.zeros(len(pairs)), np.zeros(len(pairs))
    with ThreadPoolExecutor(threads) as pool:
        sides = [_DirectionCounts(direction, pool) for direction in aligner.directions]
        report(_pairs(aligner.bitext.chunks))

        def score(number: int) -> list[Scores]:
            return [scores for side in sides for scores in side.score(number)]

        chunks = aligner.bitext.chunks
        for chunk, found in zip(chunks, pool.map(score, range(len(chunks))), strict=True):
            for rows, gained, counted in found:
                information[rows] += gained
                words[rows] += counted
            report(chunk.pairs)
    with np.errstate(invalid="ignore"):
        scores: Reals = information / words
    return scores


def _pairs(chunks: Sequence[Chunk]) -> int:
    return sum(chunk.pairs for chunk in chunks)


class _DirectionCounts:
    """The expected counts of one direction of a trained aligner."""

    def __init__(self, direction: Direction, pool: ThreadPoolExecutor) -> None:
        assert isinstance(direction.positions, PositionMixture)
        self.direction, self.positions = direction, direction.positions
        bitext = direction.bitext
        self.links = np.zeros(len(bitext.source))  # c(e, f) of every distinct word pair
        self.targets = np.zeros(bitext.target_size)  # occurrences of f
        numbers = range(len(bitext.chunks))
        for chunk, links in zip(bitext.chunks, pool.map(self._expected, numbers), strict=True):
            self.links[chunk.words] += np.bincount(chunk.links, links, len(chunk.words))
            self.targets += np.bincount(chunk.target, minlength=bitext.target_size)
        self.sources = np.bincount(bitext.source, self.links, bitext.source_size)  # c(e)
        self.words = self.targets.sum()

    def _expected(self, number: int) -> Reals:
        """Return p(a_j = i) of every link of a chunk."""
        chunk = self.direction.bitext.chunks[number]
        links = np.empty(len(chunk.links))
        for block, expected in zip(chunk.blocks, posteriors(self.direction, number), strict=True):
            block.view(links)[...] = expected.links
        return links

    def score(self, number: int) -> Iterator[Scores]:
        """Yield the scores of the pairs of a chunk."""
        chunk = self.direction.bitext.chunks[number]
        own = self._expected(number)
        all_ = self.links[chunk.words][chunk.links]
        for block in chunk.blocks:
            for rows in _slices(block):
                yield (
                    block.pairs[rows],
                    *self._score(block, rows, block.view(all_)[rows], block.view(own)[rows]),
                )

    def _score(self, block: PairBlock, rows: slice, counts: Reals, own: Reals) -> tuple[Reals, Reals]:
        """Return the information and the number of counted words of some pairs of one shape, (B,) both.

        `counts` are the c(e, f) of all pairs and `own` the links of each pair, both (B, T, S).
        """
        source, target = block.source[rows], block.target[rows]
        same_source, same_target = _equal(source), _equal(target)
        own_words = same_target @ own @ same_source  # a word may occur more than once in a sentence
        own_source = own.sum(axis=1, keepdims=True) @ same_source  # (B, 1, S)
        others = self.targets[target] - same_target.sum(axis=2)  # (B, T)
        known = others > 0
        share = np.where(known, others / max(1, self.words - target.shape[1]), 1.0)
        seen = np.maximum(counts - own_words, 0)
        given = np.maximum(self.sources[source][:, None, :] - own_source, 0)
        translations = (seen + _IMAGINED * share[:, :, None]) / (given + _IMAGINED)
        prior = self.positions.prior(block.shape)
        near = prior[:, :-1]
        anywhere = near.mean(axis=1, keepdims=True)
        found = (translations * (near + anywhere) / 2).sum(axis=2) + share * prior[:, -1]
        return np.where(known, np.log(found / share), 0.0).sum(axis=1), known.sum(axis=1)


def _equal(words: Ids) -> Reals:
    """Return which words of a sentence are the same, (B, N, N), as 0 and 1."""
    same: NDArray[np.bool_] = words[:, :, None] == words[:, None, :]
    return same.astype(np.float64)


def _slices(block: PairBlock) -> Iterator[slice]:
    """Yield parts of a block whose squares of words are at most a chunk."""
    size = max(1, CHUNK // max(block.shape) ** 2)
    for start in range(0, len(block.pairs), size):
        yield slice(start, start + size)
