"""n-gram counts, order by order, as sorted integer arrays.

An n-gram is stored as its parent (the n-gram without its last word) and that word: key = parent * V + word,
where the parent is an index into the sorted n-grams of the previous order. A key thus fits into 64 bits for any
order and vocabulary, and the n-grams that continue one context are adjacent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.types import BOS, EOS

Rows = Iterable[Sequence[int] | NDArray[np.integer]]
Ints = NDArray[np.int32]

CHUNK = 1 << 21  # tokens sorted at a time; bounds the memory needed in addition to the tables


@dataclass(frozen=True)
class NgramCounts:
    """The distinct n-grams of one order, sorted by parent and word."""

    parents: Ints  # indices into the previous order
    words: Ints
    counts: Ints  # number of occurrences in the text
    suffixes: Ints  # index, in the previous order, of the n-gram without its first word

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class _ChunkCounts:
    """The distinct n-grams of one or more chunks of the text."""

    keys: NDArray[np.int64]
    counts: Ints
    suffixes: Ints


def count(rows: Rows, *, order: int, vocabulary: int, chunk: int = CHUNK) -> Iterator[NgramCounts]:
    """Yield the n-grams of every order from 1 to `order`. Rows contain neither BOS nor EOS; both are added.

    BOS occurs only as the first word of an n-gram. Order 1 has all V words, seen or not; BOS has count 0 there,
    because it is never predicted.
    """
    texts = list(_concatenated(rows, chunk))
    yield _unigrams(texts, vocabulary)
    ends = texts  # per token, the index of the n-gram that ends there; -1 near the start of a row
    for _ in range(1, order):
        merged, ends = _next_order(texts, ends, vocabulary)
        parents, words = np.divmod(merged.keys, vocabulary)
        yield NgramCounts(parents.astype(np.int32), words.astype(np.int32), merged.counts, merged.suffixes)


def _concatenated(rows: Rows, chunk: int) -> Iterator[Ints]:
    """Yield arrays of about `chunk` tokens: complete rows, each with BOS and EOS added."""
    bos, eos = np.array([BOS], np.int32), np.array([EOS], np.int32)
    parts, size = list[Ints](), 0
    for row in rows:
        words = np.asarray(row, np.int32)
        parts += (bos, words, eos)
        size += len(words) + 2
        if size >= chunk:
            yield np.concatenate(parts)
            parts, size = [], 0
    if parts:
        yield np.concatenate(parts)


def _unigrams(texts: Sequence[Ints], vocabulary: int) -> NgramCounts:
    counts = np.zeros(vocabulary, np.int64)
    for text in texts:
        counts += np.bincount(text, minlength=vocabulary)
    counts[BOS] = 0
    root = np.zeros(vocabulary, np.int32)
    return NgramCounts(root, np.arange(vocabulary, dtype=np.int32), counts.astype(np.int32), root)


def _next_order(
    texts: Sequence[Ints], ends: Sequence[Ints], vocabulary: int
) -> tuple[_ChunkCounts, list[Ints]]:
    """Return the n-grams that are one word longer, and the index of the one that ends at each token."""
    parts, longer = list[_ChunkCounts](), list[Ints]()
    for text, end in zip(texts, ends, strict=True):
        at = np.flatnonzero((end[:-1] >= 0) & (text[1:] != BOS)) + 1
        keys = end[at - 1].astype(np.int64) * vocabulary + text[at]
        distinct, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        suffixes = np.empty(len(distinct), np.int32)
        suffixes[inverse] = end[at]  # the suffix is the shorter n-gram that ends at the same token
        parts.append(_ChunkCounts(distinct, counts.astype(np.int32), suffixes))
        longer.append(np.full(len(text), -1, np.int32))
        longer[-1][at] = inverse
    merged = _merge(parts)
    for part, end in zip(parts, longer, strict=True):
        indices = np.append(np.searchsorted(merged.keys, part.keys), -1).astype(np.int32)  # -1 stays -1
        end[:] = indices[end]
    return merged, longer


def _merge(parts: Sequence[_ChunkCounts]) -> _ChunkCounts:
    """Merge parts and add up their counts; by halves, so that each n-gram is moved log(parts) times."""
    if len(parts) == 1:
        return parts[0]
    left, right = _merge(parts[: len(parts) // 2]), _merge(parts[len(parts) // 2 :])
    keys = np.concatenate((left.keys, right.keys))
    order = np.argsort(keys, kind="stable")  # two sorted runs: one merge
    keys = keys[order]
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.add.reduceat(np.concatenate((left.counts, right.counts))[order], firsts, dtype=np.int32)
    suffixes = np.concatenate((left.suffixes, right.suffixes))[order[firsts]]
    return _ChunkCounts(keys[firsts], counts, suffixes)
