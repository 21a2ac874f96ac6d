"""Pairs whose sides are not translations of each other, found by word alignment."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from statistics import median

from seqloom.cleaning.information import InformationRule
from seqloom.cleaning.rule import Pair, Progress
from seqloom.statistical.alignment.information import PASSES, pair_information
from seqloom.statistical.alignment.words import words_to_ids

_LETTERS = 5  # of a word that count: inflected forms of a word share their statistics
_LONGEST = 256  # tokens of a side that are used: time and memory grow with the square
_FEW = 1000  # pairs from which an aligner learns too little
# Scripts without spaces: every character is a token.
_ALONE = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
# Marks that belong to words but that \w does not include: accents, points and the signs of Indian scripts.
_MARKS = r"\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff"
_TOKEN = re.compile(rf"[{_ALONE}]|(?:(?![{_ALONE}])[\w{_MARKS}])+|[^\w\s]")


class Alignment(InformationRule):
    """Rule against pairs whose words say too little about each other.

    `seqloom.statistical.alignment.information` has the score. A side whose texts are single words is split into
    characters.
    """

    unit = "word"
    passes = PASSES

    def __init__(self, sample: Sequence[Pair], least: float, threads: int) -> None:
        super().__init__(least)
        self._threads = threads
        self._by_character = [_is_single_words([pair[side] for pair in sample]) for side in (0, 1)]

    def scores(self, pairs: Sequence[Pair], on_progress: Progress) -> list[float]:
        if len(pairs) < _FEW:
            self.warnings.append(f"{len(pairs):,} pairs are too few for a reliable word alignment.")
        numbers = words_to_ids(self._tokenised(pairs))
        scores: list[float] = pair_information(numbers, threads=self._threads, on_progress=on_progress).tolist()
        return scores

    def _tokenised(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[str], list[str]]]:
        for source, target in pairs:
            yield self._tokens(source, 0), self._tokens(target, 1)

    def _tokens(self, text: str, side: int) -> list[str]:
        normal = unicodedata.normalize("NFC", text.lower())
        if self._by_character[side]:
            return list("".join(normal.split()))[:_LONGEST]
        return [word[:_LETTERS] for word in _TOKEN.findall(normal)[:_LONGEST]]


def _is_single_words(texts: Sequence[str]) -> bool:
    return bool(texts) and median(len(text.split()) for text in texts) <= 1
