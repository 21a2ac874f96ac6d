"""Interpolated modified Kneser-Ney: probabilities from counts.

For an n-gram of context h and word w (Chen and Goodman 1999, section 3),

    p(w | h) = (c(hw) - D(c(hw))) / c(h·) + gamma(h) p(w | h without its first word)
    gamma(h) = sum_w D(c(hw)) / c(h·)

where c is the count in the text for the longest n-grams and for those that begin with BOS, and for all others
the number of different words that stand before them. Below the single words is the uniform distribution. With
t_k = how many n-grams have c = k, and Y = t_1 / (t_1 + 2 t_2), the discounts of an order are

    D(k) = k - (k + 1) Y t_{k+1} / t_k   for k = 1, 2 and, for all that is more, 3.

A pruned n-gram leaves its whole count to gamma(h), so that every distribution still sums to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.statistical.ngram.counts import Counted, Rows, count
from seqloom.statistical.ngram.levels import Level, bounds
from seqloom.types import BOS, PAD

Discounts = tuple[float, float, float]

FALLBACK: Discounts = (0.5, 1.0, 1.5)  # of an order whose counts are too few or too even to tell


@dataclass(frozen=True)
class _Order:
    """The n-grams of one order. `places` and `probs` have all of them, the rest those that are kept."""

    places: NDArray[np.int32]  # where each stands among those that are kept; -1 = pruned
    probs: NDArray[np.float64]
    words: NDArray[np.int32]
    parents: NDArray[np.int32]  # places in the order before, as the suffixes
    suffixes: NDArray[np.int32]
    gammas: NDArray[np.float64]  # of the contexts: what the order before keeps

    @property
    def kept(self) -> NDArray[np.bool_]:
        return self.places >= 0


def smooth(rows: Rows, *, order: int, vocabulary: int, prune: Sequence[int]) -> tuple[list[Level], list[str]]:
    """The tables of a model of these rows, and what the person should know about them."""
    if problem := pruning_problem(prune):
        raise SeqloomError(
            f"n-grams cannot be pruned so: {problem}.",
            "0 0 1 leaves out n-grams of three and more words that are seen once",
        )
    levels, fallbacks = list[Level](), list[int]()
    below = _root(vocabulary)
    for n, (counted, counts) in enumerate(_adjusted(count(rows, order=order, vocabulary=vocabulary)), 1):
        discounts = estimate_discounts(np.bincount(np.minimum(counts, 5), minlength=5)[1:5].tolist())
        if discounts is None:
            fallbacks.append(n)
        threshold = prune[min(n, len(prune)) - 1] if prune else 0
        this = _smooth(counted, counts, discounts or FALLBACK, threshold, below)
        if n == 1:
            this.probs[[PAD, BOS]] = 0.0
        else:
            levels.append(_level(below, this))
        below = this
    return [*levels, _level(below, None)], _notes(fallbacks)


def pruning_problem(prune: Sequence[int]) -> str:
    """What is wrong with these thresholds, or nothing."""
    if prune and prune[0] != 0:
        return f"single words are never pruned, so the first threshold must be 0, got {prune[0]}"
    if any(later < sooner for sooner, later in pairwise(prune)):
        return f"thresholds must not fall from one order to the next, got {' '.join(map(str, prune))}"
    return ""


def _adjusted(levels: Iterable[Counted]) -> Iterator[tuple[Counted, NDArray[np.int32]]]:
    """Every order with the counts c of the equations; only two orders are in memory at a time."""
    shorter: Counted | None = None
    for level in levels:
        if shorter is not None:
            ways = np.bincount(level.suffixes, minlength=len(shorter)).astype(np.int32)
            # Nothing stands before BOS: n-grams that begin with it end no longer one and keep their counts.
            yield shorter, np.where(ways > 0, ways, shorter.counts)
        elif not level.counts.any():
            raise SeqloomError("There is no text to count n-grams in.", "check that the file is the right one")
        shorter = level
    assert shorter is not None
    yield shorter, shorter.counts


def _root(vocabulary: int) -> _Order:
    """The order below the first: one empty n-gram, and the uniform distribution over all but PAD and BOS."""
    one = np.zeros(1, np.int32)
    return _Order(one, np.array([1 / (vocabulary - 2)]), one, one, one, np.ones(1))


def _smooth(
    counted: Counted, counts: NDArray[np.int32], discounts: Discounts, threshold: int, below: _Order
) -> _Order:
    """One order, given the order below it."""
    # Counts in the text only fall as an n-gram grows, so whatever is kept has its context and its suffix kept.
    kept = (counted.counts > threshold) | (threshold == 0)
    parents, contexts = counted.parents, len(below.probs)
    off = np.array((0.0, *discounts))[np.minimum(counts, 3)]
    totals = np.bincount(parents, counts, contexts)
    rest = np.bincount(parents, np.where(kept, off, counts), contexts)
    gammas = np.divide(rest, totals, out=np.ones(contexts), where=totals > 0)
    probs = (counts - off) / totals[parents] + gammas[parents] * below.probs[counted.suffixes]
    return _Order(
        places=np.where(kept, np.cumsum(kept, dtype=np.int32) - 1, -1).astype(np.int32),
        probs=probs,
        words=counted.words[kept],
        parents=below.places[parents[kept]],
        suffixes=below.places[counted.suffixes[kept]],
        gammas=gammas[below.kept],
    )


def estimate_discounts(t: Sequence[int]) -> Discounts | None:
    """D(1), D(2) and D(3) from how many n-grams have the counts 1 to 4; None if these do not tell."""
    if not all(t[:3]):
        return None
    y = t[0] / (t[0] + 2 * t[1])
    one, two, three = (k - (k + 1) * y * t[k] / t[k - 1] for k in (1, 2, 3))
    return (one, two, three) if min(one, two, three) > 0 else None


def _level(this: _Order, longer: _Order | None) -> Level:
    """The table of the n-grams that are kept."""
    backoffs, continuations = np.zeros(0, np.float32), np.zeros(0, np.int32)
    if longer is not None:
        backoffs = np.log(longer.gammas).astype(np.float32)
        continuations = bounds(longer.parents, len(this.words))
    with np.errstate(divide="ignore"):  # ln 0 is what PAD and BOS are to have
        log_probs = np.log(this.probs[this.kept]).astype(np.float32)
    return Level(this.words, log_probs, backoffs, continuations, this.suffixes)


def _notes(orders: Sequence[int]) -> list[str]:
    if not orders:
        return []
    which = f"order{'s' * (len(orders) > 1)} {', '.join(map(str, orders))}"
    return [f"{which}: too few or too even counts to estimate discounts, so they are {FALLBACK}"]
