"""Interpolated modified Kneser-Ney: probabilities from counts.

For an n-gram of context h and word w (Chen and Goodman 1999, section 3),

    p(w | h) = (c(hw) - D(c(hw))) / c(h·) + gamma(h) p(w | h without its first word)
    gamma(h) = sum_w D(c(hw)) / c(h·)

where c is the count in the text for the longest n-grams and for those that begin with BOS, and for all others
the number of distinct words that precede them. The unigrams back off to the uniform distribution. With t_k =
number of n-grams with c = k, and Y = t_1 / (t_1 + 2 t_2), the discounts of an order are

    D(k) = k - (k + 1) Y t_{k+1} / t_k   for k = 1, 2 and 3; D(3) is used for all larger counts.

The entire count of a pruned n-gram is added to gamma(h), so that every distribution still sums to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.statistical.ngram.counts import NgramCounts, Rows, count
from seqloom.statistical.ngram.levels import Level, bounds
from seqloom.types import BOS, PAD

Discounts = tuple[float, float, float]

FALLBACK: Discounts = (0.5, 1.0, 1.5)  # for an order whose counts are too few or too uniform for an estimate


@dataclass(frozen=True)
class _SmoothedOrder:
    """The n-grams of one order. `indices` and `probs` have an entry for each, the rest only for kept ones."""

    indices: NDArray[np.int32]  # index among the kept n-grams; -1 = pruned
    probs: NDArray[np.float64]
    words: NDArray[np.int32]
    parents: NDArray[np.int32]  # indices into the kept n-grams of the previous order, as are suffixes
    suffixes: NDArray[np.int32]
    gammas: NDArray[np.float64]  # of the contexts, which are the kept n-grams of the previous order

    @property
    def kept(self) -> NDArray[np.bool_]:
        return self.indices >= 0


def smooth(rows: Rows, *, order: int, vocabulary: int, prune: Sequence[int]) -> tuple[list[Level], list[str]]:
    """Return the tables of a model of these rows, and notes for the user."""
    if problem := pruning_problem(prune):
        raise SeqloomError(
            f"Invalid pruning thresholds: {problem}.",
            "for example, 0 0 1 drops n-grams of three and more words that occur once",
        )
    levels, fallbacks = list[Level](), list[int]()
    below = _root(vocabulary)
    for n, (ngrams, counts) in enumerate(_adjusted(count(rows, order=order, vocabulary=vocabulary)), 1):
        discounts = estimate_discounts(np.bincount(np.minimum(counts, 5), minlength=5)[1:5].tolist())
        if discounts is None:
            fallbacks.append(n)
        threshold = prune[min(n, len(prune)) - 1] if prune else 0
        this = _smooth(ngrams, counts, discounts or FALLBACK, threshold, below)
        if n == 1:
            this.probs[[PAD, BOS]] = 0.0
        else:
            levels.append(_level(below, this))
        below = this
    return [*levels, _level(below, None)], _notes(fallbacks)


def pruning_problem(prune: Sequence[int]) -> str:
    """Describe the error in these thresholds; an empty string if there is none."""
    if prune and prune[0] != 0:
        return f"unigrams are never pruned, so the first threshold must be 0, got {prune[0]}"
    if any(longer < shorter for shorter, longer in pairwise(prune)):
        return f"thresholds must not decrease with the order, got {' '.join(map(str, prune))}"
    return ""


def _adjusted(levels: Iterable[NgramCounts]) -> Iterator[tuple[NgramCounts, NDArray[np.int32]]]:
    """Yield every order with the counts c of the equations; only two orders are in memory at a time."""
    shorter: NgramCounts | None = None
    for level in levels:
        if shorter is not None:
            predecessors = np.bincount(level.suffixes, minlength=len(shorter)).astype(np.int32)
            # Nothing precedes BOS: n-grams that begin with it are no suffixes and keep their counts.
            yield shorter, np.where(predecessors > 0, predecessors, shorter.counts)
        elif not level.counts.any():
            raise SeqloomError("There is no text to count n-grams in.", "check that this is the right file")
        shorter = level
    assert shorter is not None
    yield shorter, shorter.counts


def _root(vocabulary: int) -> _SmoothedOrder:
    """Return order 0: one empty n-gram, with the uniform distribution over all words but PAD and BOS."""
    zero = np.zeros(1, np.int32)
    return _SmoothedOrder(zero, np.array([1 / (vocabulary - 2)]), zero, zero, zero, np.ones(1))


def _smooth(
    ngrams: NgramCounts, counts: NDArray[np.int32], discounts: Discounts, threshold: int, below: _SmoothedOrder
) -> _SmoothedOrder:
    """Smooth one order, given the order below it."""
    # Counts in the text never increase with length, so the context and the suffix of a kept n-gram are kept.
    kept = (ngrams.counts > threshold) | (threshold == 0)
    parents, contexts = ngrams.parents, len(below.probs)
    discount = np.array((0.0, *discounts))[np.minimum(counts, 3)]
    totals = np.bincount(parents, counts, contexts)
    freed = np.bincount(parents, np.where(kept, discount, counts), contexts)
    gammas = np.divide(freed, totals, out=np.ones(contexts), where=totals > 0)
    probs = (counts - discount) / totals[parents] + gammas[parents] * below.probs[ngrams.suffixes]
    return _SmoothedOrder(
        indices=np.where(kept, np.cumsum(kept, dtype=np.int32) - 1, -1).astype(np.int32),
        probs=probs,
        words=ngrams.words[kept],
        parents=below.indices[parents[kept]],
        suffixes=below.indices[ngrams.suffixes[kept]],
        gammas=gammas[below.kept],
    )


def estimate_discounts(t: Sequence[int]) -> Discounts | None:
    """Return D(1), D(2) and D(3), given the numbers of n-grams with counts 1 to 4; None if not positive."""
    if not all(t[:3]):
        return None
    y = t[0] / (t[0] + 2 * t[1])
    one, two, three = (k - (k + 1) * y * t[k] / t[k - 1] for k in (1, 2, 3))
    return (one, two, three) if min(one, two, three) > 0 else None


def _level(this: _SmoothedOrder, longer: _SmoothedOrder | None) -> Level:
    """Return the table of the n-grams that are kept."""
    backoffs, continuations = np.zeros(0, np.float32), np.zeros(0, np.int32)
    if longer is not None:
        backoffs = np.log(longer.gammas).astype(np.float32)
        continuations = bounds(longer.parents, len(this.words))
    with np.errstate(divide="ignore"):  # ln 0 is intended for PAD and BOS
        log_probs = np.log(this.probs[this.kept]).astype(np.float32)
    return Level(this.words, log_probs, backoffs, continuations, this.suffixes)


def _notes(orders: Sequence[int]) -> list[str]:
    if not orders:
        return []
    label = f"order{'s' * (len(orders) > 1)} {', '.join(map(str, orders))}"
    return [f"{label}: counts are too few or too uniform to estimate discounts; using {FALLBACK}"]
