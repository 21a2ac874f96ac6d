"""The translation options of the spans of a sentence, and estimates of future scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from seqloom.statistical.phrase import features as F
from seqloom.statistical.phrase.features import Context, PhraseLanguageModel, Vector
from seqloom.statistical.phrase.table import PhraseTable
from seqloom.types import UNK

PASS_THROUGH = -1  # row of a word that is passed through
_CACHE_SIZE = 20_000  # source phrases with cached options


class Option(NamedTuple):
    """One translation of one source phrase, with the part of its score that does not depend on its position."""

    row: int  # in the phrase table
    words: tuple[int, ...]
    surface: str  # surface form of a word that is passed through
    translation: float  # weighted: translation model, words, phrases
    language: float  # weighted: an estimate from its words alone
    before: tuple[float, ...]  # weighted log P by orientation
    after: tuple[float, ...]

    @property
    def estimate(self) -> float:
        """Estimate of its contribution to a score."""
        return self.translation + self.language


class SpanOptions(NamedTuple):
    """The options of a span, ranked for each orientation to the previous phrase: estimates and options."""

    ranked: tuple[tuple[list[float], list[Option]], ...]
    best: float  # the highest estimate, without orientation


Spans = list[list[tuple[int, int, SpanOptions]]]
"""Per start, the spans that have options, shortest first: stop, mask of the words, options."""


class SourceSentence(NamedTuple):
    """A source sentence with its translation options."""

    length: int
    spans: Spans
    future: list[list[float]]  # [start][stop]: estimated score of the best translation of the span

    def estimate(self, covered: int) -> float:
        """Return the estimate for all uncovered words: the sum over the gaps."""
        return sum(self.future[start][stop] for start, stop in _gaps(covered, self.length))


class OptionCollector:
    """Collects the translation options of sentences, with a cache of source phrases."""

    def __init__(self, table: PhraseTable, language: PhraseLanguageModel, weights: Vector, limit: int) -> None:
        self.table, self.language, self.weights, self.limit = table, language, weights, limit
        self._weight = float(weights[F.LANGUAGE])
        self._cache: dict[int, SpanOptions | None] = {}

    def collect(self, words: Sequence[int], surfaces: Sequence[str], known: Sequence[int]) -> SourceSentence:
        """Return a sentence with its options.

        Words that no phrase translates are passed through: `surfaces` are the words as written, and `known`
        their ids in the target vocabulary, or UNK.
        """
        numbers = self.table.source.find(np.array(words, dtype=np.int64)).T.tolist()
        spans: Spans = []
        for start, row in enumerate(numbers):
            options = [
                (start + size, self._span_options(number)) for size, number in enumerate(row, 1) if number >= 0
            ]
            if words[start] == UNK or not options or options[0][1] is None:
                options = [(start + 1, self._pass_through(surfaces[start], known[start])), *options[1:]]
            spans.append([(stop, (1 << stop) - (1 << start), choice) for stop, choice in options if choice])
        return SourceSentence(len(words), spans, _future(len(words), spans))

    def _span_options(self, number: int) -> SpanOptions | None:
        if number not in self._cache:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            rows = range(*self.table.first[number : number + 2].tolist())
            self._cache[number] = _ranked(self._options(rows)) if rows else None
        return self._cache[number]

    def _options(self, rows: range) -> list[Option]:
        """Return the best translations by estimate, including the language model."""
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

    def _pass_through(self, surface: str, known: int) -> SpanOptions:
        """Return the word itself as the only option."""
        weight = float(self.weights[F.UNKNOWN])
        return _ranked([self._option(PASS_THROUGH, (known,), surface, weight, (0.0,) * 6)])

    def _option(
        self, row: int, words: tuple[int, ...], surface: str, score: float, orientation: tuple[float, ...]
    ) -> Option:
        static = score + float(self.weights[F.WORDS]) * len(words) + float(self.weights[F.PHRASES])
        language = self._weight * log_prob_of(self.language, (), words)[0]
        return Option(row, words, surface, static, language, orientation[:3], orientation[3:])


def log_prob_of(language: PhraseLanguageModel, context: Context, words: Sequence[int]) -> tuple[float, Context]:
    """Return log P of the words after a context, and the context of the next word."""
    total = 0.0
    for word in words:
        log_prob, context = language.log_prob(context, word)
        total += log_prob
    return total, context


def _ranked(options: list[Option]) -> SpanOptions:
    lists = []
    for orientation in range(3):
        scored = [(option.estimate + option.before[orientation], option) for option in options]
        scored.sort(key=lambda pair: (-pair[0], pair[1].row))
        lists.append(([score for score, _ in scored], [option for _, option in scored]))
    return SpanOptions(tuple(lists), max(option.estimate for option in options))


def _future(length: int, spans: Spans) -> list[list[float]]:
    """Return the best sum of estimates over every span, in any order, by recursion on its first phrase."""
    future = [[0.0] * (length + 1) for _ in range(length + 1)]
    for start in range(length - 1, -1, -1):
        row = future[start]
        firsts = [(stop, choice.best, future[stop]) for stop, _, choice in spans[start]]
        for end in range(start + 1, length + 1):
            row[end] = max(best + rest[end] for stop, best, rest in firsts if stop <= end)
    return future


def _gaps(covered: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield start and stop of every run of uncovered words."""
    start = None
    for position in range(length + 1):
        taken = position == length or covered >> position & 1
        if start is None and not taken:
            start = position
        elif start is not None and taken:
            yield start, position
            start = None
