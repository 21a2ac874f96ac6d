"""Extraction of phrase pairs that are consistent with a word alignment, and their orientations.

Koehn, Och & Marcu 2003: a pair of spans is consistent with the links if at least one link is inside and no link
leads from inside to outside. Unlinked words at an edge may or may not belong to a phrase: both variants count.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Links = NDArray[Any]  # (n, 2): positions in the source and in the target, from 0
Span = tuple[int, int, int, int]  # source start and stop, target start and stop; stops are exclusive

MONOTONE, SWAP, OTHER = 0, 1, 2


class Occurrences(NamedTuple):
    """All occurrences of phrase pairs, one row each; positions are relative to the sentence."""

    sentence: NDArray[np.int32]
    source: NDArray[np.int32]  # (N, 2): start and stop
    target: NDArray[np.int32]  # (N, 2)
    before: NDArray[np.int32]  # orientation relative to the previous target phrase
    after: NDArray[np.int32]  # orientation of the next target phrase


def occurrences(links: Iterable[Links], lengths: Iterable[tuple[int, int]], longest: int) -> Occurrences:
    """Return the phrase pairs of all sentences; `lengths` are (source, target)."""
    flat = array("i")
    for number, (sentence_links, (source, target)) in enumerate(zip(links, lengths, strict=True)):
        pairs = [(int(i), int(j)) for i, j in sentence_links]
        linked = {*pairs, (-1, -1), (source, target)}  # sentence boundaries are linked
        for span in spans(pairs, source, target, longest):
            flat.extend((number, *span, *orientations(linked, span)))
    rows = np.frombuffer(flat, dtype=np.int32).reshape(-1, 7) if flat else np.zeros((0, 7), np.int32)
    return Occurrences(rows[:, 0], rows[:, 1:3], rows[:, 3:5], rows[:, 5], rows[:, 6])


def spans(links: Sequence[tuple[int, int]], source: int, target: int, longest: int) -> Iterator[Span]:
    """Yield the pairs of spans of at most `longest` words that are consistent with the links of a sentence."""
    first_target, last_target = [target] * source, [-1] * source
    first_source, last_source = [source] * target, [-1] * target
    for i, j in links:
        first_target[i], last_target[i] = min(first_target[i], j), max(last_target[i], j)
        first_source[j], last_source[j] = min(first_source[j], i), max(last_source[j], i)
    for start in range(source):
        first, last = target, -1
        for stop in range(start + 1, min(source, start + longest) + 1):
            first, last = min(first, first_target[stop - 1]), max(last, last_target[stop - 1])
            if last - first >= longest:
                break  # a longer source span only widens the target span
            inside = last >= 0 and min(first_source[first : last + 1]) >= start
            if inside and max(last_source[first : last + 1]) < stop:
                for low, high in _widened(first, last + 1, last_source, longest):
                    yield start, stop, low, high


def _widened(first: int, stop: int, last_source: Sequence[int], longest: int) -> Iterator[tuple[int, int]]:
    """Yield the target span, and its extensions by unlinked words at the edges."""
    low = first
    while low >= 0 and (low == first or last_source[low] < 0) and stop - low <= longest:
        high = stop
        while (
            high <= len(last_source) and (high == stop or last_source[high - 1] < 0) and high - low <= longest
        ):
            yield low, high
            high += 1
        low -= 1


def orientations(linked: set[tuple[int, int]], span: Span) -> tuple[int, int]:
    """Return how the pair follows the previous target word, and how the next target word follows the pair.

    Koehn et al. 2005 (msd): monotone if target neighbours are also source neighbours in the same order, swap
    if in the opposite order, otherwise other.
    """
    start, stop, low, high = span
    before = MONOTONE if (start - 1, low - 1) in linked else SWAP if (stop, low - 1) in linked else OTHER
    after = MONOTONE if (stop, high) in linked else SWAP if (start - 1, high) in linked else OTHER
    return before, after
