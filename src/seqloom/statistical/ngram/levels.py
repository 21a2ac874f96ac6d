"""The n-grams of one order in a table that says where their continuations stand in the next order's."""

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
    """n-grams sorted by context and word. Of order 1 there is one per word of the vocabulary, at its id.

    n-gram i is the context of those from continuations[i] up to continuations[i + 1] of the next order. The
    longest n-grams are contexts of nothing: they have neither backoffs nor continuations.
    """

    words: Ints  # the last word of each
    log_probs: Floats  # ln p(word | context)
    backoffs: Floats  # ln gamma: the weight of shorter contexts where this one says nothing
    continuations: Ints
    suffixes: Ints  # the place, in the order before, of the n-gram without its first word; 0 of order 1

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def names(cls) -> list[str]:
        """The names of the arrays."""
        return [field.name for field in fields(cls)]


def bounds(parents: NDArray[np.integer], count: int) -> Ints:
    """Where the n-grams of each of `count` contexts begin, and the end of the last; `parents` are sorted."""
    return np.concatenate(([0], np.cumsum(np.bincount(parents, minlength=count)))).astype(np.int32)


def spell(levels: Sequence[Level]) -> Iterator[Ints]:
    """The words of all n-grams, (M, n), order after order."""
    rows = levels[0].words[:, None]
    yield rows
    for shorter, level in pairwise(levels):
        rows = np.column_stack((np.repeat(rows, np.diff(shorter.continuations), axis=0), level.words))
        yield rows
