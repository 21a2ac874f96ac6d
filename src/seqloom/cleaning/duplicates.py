"""Repeated pairs, and pairs whose sides repeat each other.

Repeated pairs are found by 64-bit hashes: 8 bytes of memory per pair, however long its text is. Near duplicates
have equal hashes of normalised text. MinHash would also find pairs that share most of their words, but in a
parallel corpus such pairs ("Tom is tired.", "Tom was tired.") are different sentences to learn from.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from seqloom.cleaning.rule import LineRule, Pair, Progress, Violation

Hashes = NDArray[np.uint64]
_NOT_WORDS = re.compile(r"[\W_]+")


class Duplicates:
    """Rule against pairs whose key is the key of an earlier pair."""

    passes = 1

    def __init__(self, key: Callable[[str], str], limit: str) -> None:
        self._key, self._limit = key, limit
        self.warnings: list[str] = []
        self._seen: Hashes = np.empty(0, np.uint64)  # sorted

    @property
    def limit(self) -> str:
        return self._limit

    def judge(self, pairs: Sequence[Pair], on_progress: Progress) -> list[Violation | None]:
        hashes = np.fromiter(map(self._hash, pairs), np.uint64, len(pairs))
        is_new = self._add(hashes)
        on_progress(len(pairs))
        return [None if new else Violation("equal to an earlier pair") for new in is_new]

    def _hash(self, pair: Pair) -> int:
        source, target = map(self._key, pair)
        text = f"{len(source)} {source}{target}"  # the length tells where the target begins
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")

    def _add(self, hashes: Hashes) -> list[bool]:
        """Add hashes; return for each whether it was not there before."""
        is_first = np.zeros(len(hashes), np.bool_)
        is_first[np.unique(hashes, return_index=True)[1]] = True
        places = np.searchsorted(self._seen, hashes)
        is_known = np.zeros(len(hashes), np.bool_)
        inside = places < len(self._seen)
        is_known[inside] = self._seen[places[inside]] == hashes[inside]
        is_new = is_first & ~is_known
        self._seen = np.sort(np.concatenate([self._seen, hashes[is_new]]))
        new: list[bool] = is_new.tolist()
        return new


class Identical(LineRule):
    """Rule against pairs whose sides are the same text, as in untranslated lines."""

    @property
    def limit(self) -> str:
        return "source and target differ"

    def check(self, pair: Pair) -> Violation | None:
        source, target = map(normalised, pair)
        return Violation("source and target are the same") if source == target else None


def normalised(text: str) -> str:
    """Return the letters and digits of a text without case and accents; the text itself if it has none.

    Signs that are not accents, such as the vowels of Indian scripts, stay.
    """
    folded = unicodedata.normalize("NFKD", text.casefold())
    if folded.isascii():
        return _NOT_WORDS.sub("", folded) or text
    return "".join(c for c in folded if c.isalnum() or _is_vowel_sign(c)) or text


def _is_vowel_sign(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" and not unicodedata.combining(character)
