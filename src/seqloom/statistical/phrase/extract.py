"""Phrase pairs that agree with a word alignment, and how they stand to their neighbours.

Koehn, Och & Marcu 2003: a pair of spans agrees with the links when at least one link is inside and none leads
from inside to outside. Words without a link at an edge may belong to a phrase or not, so both are taken.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Links = NDArray[Any]  # (n, 2): positions in the source and in the target, from 0
Span = tuple[int, int, int, int]  # source start and stop, target start and stop; a stop is one behind the last

MONOTONE, SWAP, OTHER = 0, 1, 2


class Occurrences(NamedTuple):
    """Every place where a phrase pair was found, a row each; positions are within the sentence."""

    sentence: NDArray[np.int32]
    source: NDArray[np.int32]  # (N, 2): start and stop
    target: NDArray[np.int32]  # (N, 2)
    before: NDArray[np.int32]  # orientation to the phrase before it in the target
    after: NDArray[np.int32]  # and to the one behind it


def occurrences(links: Iterable[Links], lengths: Iterable[tuple[int, int]], longest: int) -> Occurrences:
    """The phrase pairs of every sentence, whose lengths are (source, target)."""
    found = array("i")
    for number, (own, (source, target)) in enumerate(zip(links, lengths, strict=True)):
        pairs = [(int(i), int(j)) for i, j in own]
        linked = {*pairs, (-1, -1), (source, target)}  # the ends of both sentences belong together
        for span in spans(pairs, source, target, longest):
            found.extend((number, *span, *orientations(linked, span)))
    rows = np.frombuffer(found, dtype=np.int32).reshape(-1, 7) if found else np.zeros((0, 7), np.int32)
    return Occurrences(rows[:, 0], rows[:, 1:3], rows[:, 3:5], rows[:, 5], rows[:, 6])


def spans(links: Sequence[tuple[int, int]], source: int, target: int, longest: int) -> Iterator[Span]:
    """The pairs of spans of at most `longest` words that agree with the links of one sentence."""
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
                break  # a longer source span only widens it
            inside = last >= 0 and min(first_source[first : last + 1]) >= start
            if inside and max(last_source[first : last + 1]) < stop:
                for low, high in _widened(first, last + 1, last_source, longest):
                    yield start, stop, low, high


def _widened(first: int, stop: int, last_source: Sequence[int], longest: int) -> Iterator[tuple[int, int]]:
    """The target span, and those with more words at its edges that have no link."""
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
    """How the pair follows the word before it in the target, and how the word behind it follows the pair.

    Koehn et al. 2005 (msd): monotone if the neighbours in the target are also neighbours in the source, in the
    same order; swap if in the other order; else neither.
    """
    start, stop, low, high = span
    before = MONOTONE if (start - 1, low - 1) in linked else SWAP if (stop, low - 1) in linked else OTHER
    after = MONOTONE if (stop, high) in linked else SWAP if (start - 1, high) in linked else OTHER
    return before, after
