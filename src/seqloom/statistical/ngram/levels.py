"""Table of the n-grams of one order, with pointers to their continuations in the next order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Level:
    """n-grams sorted by context and word. Order 1 has one per word of the vocabulary, indexed by its id.

    n-gram i is the context of n-grams continuations[i] to continuations[i + 1] - 1 of the next order. The
    longest n-grams are not contexts: they have neither backoffs nor continuations.
    """

    words: Ints  # last words
    log_probs: Floats  # ln p(word | context)
    backoffs: Floats  # ln gamma: the weight of the shorter context for words not listed under this one
    continuations: Ints
    suffixes: Ints  # index, in the previous order, of the n-gram without its first word; 0 for order 1

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the arrays."""
        return [field.name for field in fields(cls)]


def bounds(parents: NDArray[np.integer], count: int) -> Ints:
    """Return the first n-gram of each of `count` contexts, and the end of the last; `parents` is sorted."""
    return np.concatenate(([0], np.cumsum(np.bincount(parents, minlength=count)))).astype(np.int32)


def spell(levels: Sequence[Level]) -> Iterator[Ints]:
    """Yield the words of all n-grams, (M, n), order by order."""
    rows = levels[0].words[:, None]
    yield rows
    for shorter, level in pairwise(levels):
        rows = np.column_stack((np.repeat(rows, np.diff(shorter.continuations), axis=0), level.words))
        yield rows
