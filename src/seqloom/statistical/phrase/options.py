"""The translation options of one sentence: what each of its spans can become, and what is still to come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from seqloom.statistical.phrase import features as F
from seqloom.statistical.phrase.features import Context, PhraseLanguageModel, Vector
from seqloom.statistical.phrase.table import PhraseTable
from seqloom.types import UNK

PASSED = -1  # the row of a word that is passed through
_CACHED = 20_000  # source phrases whose options are remembered


class Option(NamedTuple):
    """One translation of one source phrase, with all of its score that does not depend on where it stands."""

    row: int  # in the phrase table
    words: tuple[int, ...]
    surface: str  # of a word that is passed through
    translation: float  # weighted: translation model, words, phrases
    language: float  # weighted: an estimate, from its own words alone
    before: tuple[float, ...]  # weighted log P by orientation
    after: tuple[float, ...]

    @property
    def estimate(self) -> float:
        """What it adds to a score at about."""
        return self.translation + self.language


class SpanOptions(NamedTuple):
    """The options of a span, best first for each orientation to the phrase before: estimates and options."""

    ranked: tuple[tuple[list[float], list[Option]], ...]
    best: float  # the highest estimate, without orientation


Spans = list[list[tuple[int, int, SpanOptions]]]
"""Per start, the spans that have options: stop, a mask of the words, the options; the shortest first."""


class SourceSentence(NamedTuple):
    """The source words and what can be done with them."""

    length: int
    spans: Spans
    future: list[list[float]]  # [start][stop]: the estimate of the best way through

    def estimate(self, covered: int) -> float:
        """The estimate for all uncovered words: the sum over the gaps."""
        return sum(self.future[start][stop] for start, stop in _gaps(covered, self.length))


class Options:
    """Finds the options of sentences. What a source phrase can become is remembered."""

    def __init__(self, table: PhraseTable, language: PhraseLanguageModel, weights: Vector, limit: int) -> None:
        self.table, self.language, self.weights, self.limit = table, language, weights, limit
        self._weight = float(weights[F.LANGUAGE])
        self._remembered: dict[int, SpanOptions | None] = {}

    def of(self, words: Sequence[int], surfaces: Sequence[str], known: Sequence[int]) -> SourceSentence:
        """The options of a sentence.

        `surfaces` are its words as written and `known` their ids in the target vocabulary, or UNK: for a word
        that no phrase translates.
        """
        numbers = self.table.source.find(np.array(words, dtype=np.int64)).T.tolist()
        spans: Spans = []
        for start, row in enumerate(numbers):
            found = [(start + size, self._choice(number)) for size, number in enumerate(row, 1) if number >= 0]
            if words[start] == UNK or not found or found[0][1] is None:
                found = [(start + 1, self._passed(surfaces[start], known[start])), *found[1:]]
            spans.append([(stop, (1 << stop) - (1 << start), choice) for stop, choice in found if choice])
        return SourceSentence(len(words), spans, _future(len(words), spans))

    def _choice(self, number: int) -> SpanOptions | None:
        if number not in self._remembered:
            if len(self._remembered) >= _CACHED:
                self._remembered.clear()
            rows = range(*self.table.first[number : number + 2].tolist())
            self._remembered[number] = _ranked(self._options(rows)) if rows else None
        return self._remembered[number]

    def _options(self, rows: range) -> list[Option]:
        """The best translations by estimate, language model included."""
        part = slice(rows.start, rows.stop)
        weights = self.weights
        scores = (self.table.scores[part].astype(np.float64) @ weights[F.TRANSLATION]).tolist()
        reordering = (self.table.reordering[part].astype(np.float64) * weights[F.REORDERING]).tolist()
        options = []
        for row, score, orientation, number in zip(
            rows, scores, reordering, self.table.translation[part].tolist(), strict=True
        ):
            words = self.table.target.words(number)
            options.append(self._option(row, words, "", score, tuple(orientation)))
        options.sort(key=lambda option: (-option.estimate, option.row))
        return options[: self.limit]

    def _passed(self, surface: str, known: int) -> SpanOptions:
        """The word itself."""
        return _ranked([self._option(PASSED, (known,), surface, float(self.weights[F.UNKNOWN]), (0.0,) * 6)])

    def _option(
        self, row: int, words: tuple[int, ...], surface: str, score: float, orientation: tuple[float, ...]
    ) -> Option:
        static = score + float(self.weights[F.WORDS]) * len(words) + float(self.weights[F.PHRASES])
        language = self._weight * log_prob_of(self.language, (), words)[0]
        return Option(row, words, surface, static, language, orientation[:3], orientation[3:])


def log_prob_of(language: PhraseLanguageModel, context: Context, words: Sequence[int]) -> tuple[float, Context]:
    """log P of the words behind a context, and the context of the next word."""
    total = 0.0
    for word in words:
        one, context = language.log_prob(context, word)
        total += one
    return total, context


def _ranked(options: list[Option]) -> SpanOptions:
    lists = []
    for orientation in range(3):
        scored = [(option.estimate + option.before[orientation], option) for option in options]
        scored.sort(key=lambda one: (-one[0], one[1].row))
        lists.append(([score for score, _ in scored], [option for _, option in scored]))
    return SpanOptions(tuple(lists), max(option.estimate for option in options))


def _future(length: int, spans: Spans) -> list[list[float]]:
    """The best sum of estimates over every span, whatever the order: by what its first phrase may be."""
    future = [[0.0] * (length + 1) for _ in range(length + 1)]
    for start in range(length - 1, -1, -1):
        row = future[start]
        firsts = [(stop, choice.best, future[stop]) for stop, _, choice in spans[start]]
        for end in range(start + 1, length + 1):
            row[end] = max(best + rest[end] for stop, best, rest in firsts if stop <= end)
    return future


def _gaps(covered: int, length: int) -> Iterator[tuple[int, int]]:
    """Start and stop of every run of uncovered words."""
    start = None
    for place in range(length + 1):
        taken = place == length or covered >> place & 1
        if start is None and not taken:
            start = place
        elif start is not None and taken:
            yield start, place
            start = None
