"""Counts of n-grams, order after order, as sorted arrays of integers.

An n-gram is its parent (the n-gram without its last word) and that word: key = parent * V + word, where the
parent is a place in the sorted list of the order before. So a key fits 64 bits whatever the order and the
vocabulary, and the n-grams that continue one context stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.types import BOS, EOS

Rows = Iterable[Sequence[int] | NDArray[np.integer]]
Ints = NDArray[np.int32]

CHUNK = 1 << 21  # tokens that are sorted at a time: it bounds the memory beside the tables themselves


@dataclass(frozen=True)
class Counted:
    """The distinct n-grams of one order, sorted by parent and word."""

    parents: Ints  # places in the order before
    words: Ints
    counts: Ints  # how often each stands in the text
    suffixes: Ints  # the place, in the order before, of the n-gram without its first word

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class _Part:
    """The distinct n-grams of one chunk of the text, or of several."""

    keys: NDArray[np.int64]
    counts: Ints
    suffixes: Ints


def count(rows: Rows, *, order: int, vocabulary: int, chunk: int = CHUNK) -> Iterator[Counted]:
    """The n-grams of every order from 1 up to `order`. Rows have neither BOS nor EOS; every one gets both.

    An n-gram may begin with BOS, never go on with it. The first order has all V words, seen or not; BOS counts
    as never seen there, because nothing predicts it.
    """
    texts = list(_joined(rows, chunk))
    yield _unigrams(texts, vocabulary)
    ends = texts  # per token the place of the n-gram that ends with it; -1 if the row has not so many words yet
    for _ in range(1, order):
        whole, ends = _next_order(texts, ends, vocabulary)
        parents, words = np.divmod(whole.keys, vocabulary)
        yield Counted(parents.astype(np.int32), words.astype(np.int32), whole.counts, whole.suffixes)


def _joined(rows: Rows, chunk: int) -> Iterator[Ints]:
    """BOS row EOS, one after the other, in arrays of about `chunk` tokens that no row straddles."""
    before, after = np.array([BOS], np.int32), np.array([EOS], np.int32)
    parts, size = list[Ints](), 0
    for row in rows:
        words = np.asarray(row, np.int32)
        parts += (before, words, after)
        size += len(words) + 2
        if size >= chunk:
            yield np.concatenate(parts)
            parts, size = [], 0
    if parts:
        yield np.concatenate(parts)


def _unigrams(texts: Sequence[Ints], vocabulary: int) -> Counted:
    counts = np.zeros(vocabulary, np.int64)
    for text in texts:
        counts += np.bincount(text, minlength=vocabulary)
    counts[BOS] = 0
    root = np.zeros(vocabulary, np.int32)
    return Counted(root, np.arange(vocabulary, dtype=np.int32), counts.astype(np.int32), root)


def _next_order(texts: Sequence[Ints], ends: Sequence[Ints], vocabulary: int) -> tuple[_Part, list[Ints]]:
    """The n-grams one word longer, and which of them ends with each token."""
    parts, longer = list[_Part](), list[Ints]()
    for text, end in zip(texts, ends, strict=True):
        at = np.flatnonzero((end[:-1] >= 0) & (text[1:] != BOS)) + 1
        keys = end[at - 1].astype(np.int64) * vocabulary + text[at]
        distinct, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
        suffixes = np.empty(len(distinct), np.int32)
        suffixes[which] = end[at]  # without its first word it is the shorter n-gram that ends with this token
        parts.append(_Part(distinct, counts.astype(np.int32), suffixes))
        longer.append(np.full(len(text), -1, np.int32))
        longer[-1][at] = which
    merged = _merge(parts)
    for part, end in zip(parts, longer, strict=True):
        places = np.append(np.searchsorted(merged.keys, part.keys), -1).astype(np.int32)  # and -1 stays -1
        end[:] = places[end]
    return merged, longer


def _merge(parts: Sequence[_Part]) -> _Part:
    """The n-grams of all parts, their counts added; by halves, so that each is moved log(parts) times."""
    if len(parts) == 1:
        return parts[0]
    left, right = _merge(parts[: len(parts) // 2]), _merge(parts[len(parts) // 2 :])
    keys = np.concatenate((left.keys, right.keys))
    order = np.argsort(keys, kind="stable")  # two sorted runs: one merge
    keys = keys[order]
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.add.reduceat(np.concatenate((left.counts, right.counts))[order], firsts, dtype=np.int32)
    suffixes = np.concatenate((left.suffixes, right.suffixes))[order[firsts]]
    return _Part(keys[firsts], counts, suffixes)
