"""Pairs whose sides are not translations of each other, found by word alignment."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from statistics import median

from seqloom.cleaning.rule import Finding, Pair, Progress
from seqloom.statistical.alignment.information import PASSES, pair_information
from seqloom.statistical.alignment.words import number

_LETTERS = 5  # of a word that count: inflected forms of a word share their statistics
_LONGEST = 256  # tokens of a side that are looked at: time and memory grow with the square
# Scripts without spaces: every character is a token.
_ALONE = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
# Marks that belong to words but that \w does not include: accents, points and the signs of Indian scripts.
_MARKS = r"\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff"
_TOKEN = re.compile(rf"[{_ALONE}]|(?:(?![{_ALONE}])[\w{_MARKS}])+|[^\w\s]")


class Alignment:
    """Rule against pairs whose sides say too little about each other.

    `seqloom.statistical.alignment.information` has the score. A side whose texts are single words is split into
    characters.
    """

    passes = PASSES

    def __init__(self, sample: Sequence[Pair], least: float, threads: int) -> None:
        self.least, self._threads = least, threads
        self._by_character = [_is_single_words([pair[side] for pair in sample]) for side in (0, 1)]

    @property
    def limit(self) -> str:
        return f"at least {self.least:g} nats per word"

    def judge(self, pairs: Sequence[Pair], on_progress: Progress) -> list[Finding | None]:
        scores = pair_information(
            number(self._tokenised(pairs)), threads=self._threads, on_progress=on_progress
        )
        return [
            Finding(f"source and target share {score:.2f} nats per word", score) if score < self.least else None
            for score in scores.tolist()  # NaN, which cannot be judged, is not below the limit
        ]

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
