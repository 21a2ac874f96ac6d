"""The best derivations of a search graph, and their features, recomputed from scratch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from seqloom.statistical.phrase import features as F
from seqloom.statistical.phrase.extract import MONOTONE, OTHER
from seqloom.statistical.phrase.features import PhraseLanguageModel, Vector
from seqloom.statistical.phrase.graph import Arc, SearchGraph
from seqloom.statistical.phrase.options import PASS_THROUGH, Option, log_prob_of
from seqloom.statistical.phrase.stacks import orientation
from seqloom.statistical.phrase.table import PhraseTable
from seqloom.types import EOS

_MAX_TRIES = 20  # derivations tried per output: many have the same words


class DerivationPiece(NamedTuple):
    """An option and the source span that it translates."""

    option: Option
    start: int
    stop: int


class Derivation(NamedTuple):
    """The pieces of a translation, in target order."""

    score: float
    pieces: tuple[DerivationPiece, ...]

    @property
    def words(self) -> tuple[tuple[int, str], ...]:
        """The target words: id, and the surface form if passed through."""
        return tuple((word, piece.option.surface) for piece in self.pieces for word in piece.option.words)


def derivations(graph: SearchGraph) -> Iterator[Derivation]:
    """Yield all derivations of the graph, best first.

    A* from the goal backwards: the score of an arc is that of the best path up to it, so the sum with the score
    of the rest is exact, and the first path that reaches the start is the best of those remaining.
    """
    serial = count()  # equal scores are ordered by discovery
    heap: list[tuple[float, int, float, Arc, tuple[DerivationPiece, ...]]] = []
    for arc in graph.goal.arcs:
        heappush(heap, (-arc.score, next(serial), 0.0, arc, ()))
    while heap:
        negative, _, rest, arc, pieces = heappop(heap)
        if arc.previous is None or arc.option is None:
            yield Derivation(-negative, pieces)
            continue
        longer = (DerivationPiece(arc.option, arc.start, arc.stop), *pieces)
        rest += arc.score - arc.previous.score  # what this arc adds to the best path before it
        for previous in arc.previous.arcs:
            heappush(heap, (-(previous.score + rest), next(serial), rest, previous, longer))


def best(graph: SearchGraph, nbest: int) -> list[Derivation]:
    """Return the best derivation of each of the `nbest` best translations with different words."""
    by_words: dict[tuple[tuple[int, str], ...], Derivation] = {}
    for tried, derivation in enumerate(derivations(graph), 1):
        by_words.setdefault(derivation.words, derivation)
        if len(by_words) == nbest or tried >= _MAX_TRIES * nbest:
            break
    return list(by_words.values())


def features_of(
    derivation: Derivation, length: int, table: PhraseTable, language: PhraseLanguageModel
) -> Vector:
    """Compute the features of a derivation of a source with `length` words, piece by piece."""
    values = np.zeros(len(F.FEATURES))
    words = [word for piece in derivation.pieces for word in piece.option.words]
    values[F.LANGUAGE] = log_prob_of(language, language.start, [*words, EOS])[0]
    values[F.WORDS], values[F.PHRASES] = len(words), len(derivation.pieces)
    last_start, last_stop = -1, 0
    for number, (option, start, stop) in enumerate(derivation.pieces):
        values[F.DISTANCE] -= abs(start - last_stop)
        turn = orientation(last_start, last_stop, start, stop)
        if number:
            values[F.AFTER + turn] += _reordering(table, derivation.pieces[number - 1].option)[3 + turn]
        values[F.BEFORE + turn] += _reordering(table, option)[turn]
        if option.row == PASS_THROUGH:
            values[F.UNKNOWN] += 1
        else:
            values[F.TRANSLATION] += table.scores[option.row]
        last_start, last_stop = start, stop
    if derivation.pieces:
        end = MONOTONE if last_stop == length else OTHER
        values[F.AFTER + end] += _reordering(table, derivation.pieces[-1].option)[3 + end]
    return values


def _reordering(table: PhraseTable, option: Option) -> Sequence[float]:
    return _NO_REORDERING if option.row == PASS_THROUGH else table.reordering[option.row].tolist()


_NO_REORDERING = (0.0,) * 6
