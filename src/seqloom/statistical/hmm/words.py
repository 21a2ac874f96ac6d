"""Words of a text whose unseen words are spelled in bytes, and what the ending of a word says about its tag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.statistical.state_reader import StateReader, expect
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import UNK

Vector = NDArray[np.float64]

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_MARK = "▁".encode()  # what a word begins with
_LOWER, _UPPER, _DIGIT, _OTHER = range(4)


class Word(NamedTuple):
    """A word: the place of its first token, and its id, or UNK and how it is spelled."""

    place: int
    id: int
    spelling: bytes = b""


def byte_table(tokenizer: Tokenizer) -> Tensor:
    """(V,): the value of each id that is a byte, −1 of all others."""
    ids = range(tokenizer.size)
    values = [
        spelled[0] if _BYTE.fullmatch(piece) else -1
        for piece, spelled in zip(tokenizer.pieces(ids), tokenizer.bytes_of(ids), strict=True)
    ]
    return torch.tensor(values, dtype=torch.int16)


def words_of(ids: Iterable[int], byte_of: list[int]) -> list[Word]:
    """The words of a text: an id each, but a run of bytes is one word for every mark in it."""
    words: list[Word] = []
    run, begun = bytearray(), 0
    for place, id in enumerate(ids):
        if byte_of[id] >= 0:
            begun = begun if run else place
            run.append(byte_of[id])
            continue
        words += _spelled(run, begun)
        run.clear()
        words.append(Word(place, id))
    return words + _spelled(run, begun)


def _spelled(run: bytearray, begun: int) -> list[Word]:
    """The words of a run of bytes; what stands before its first mark is a word, too."""
    words, place = [], begun
    for number, part in enumerate(bytes(run).split(_MARK)):
        if part or number:
            words.append(Word(place, UNK, part))
        place += len(part) + (len(_MARK) if number else 0)
    return words


def spelling(piece: bytes) -> bytes:
    """A word without its mark."""
    return piece.removeprefix(_MARK)


def _shape(word: bytes) -> int:
    text = word.decode("utf-8", errors="replace")
    if any(char.isdigit() for char in text):
        return _DIGIT
    if text[:1].isupper():
        return _UPPER
    return _LOWER if any(char.isalpha() for char in text) else _OTHER


def _keys(word: bytes, longest: int) -> list[int]:
    """A number for every ending of a word from none to the longest, which also tells the shape of the word."""
    shape = _shape(word)
    lengths = range(min(longest, len(word)) + 1)
    return [int.from_bytes(word[len(word) - n :]) << 5 | n << 2 | shape for n in lengths]


@dataclass(frozen=True)
class Endings:
    """P(tag | ending of a rare word), every ending smoothed by the next shorter one (after Brants 2000, TnT).

    p(t | e_n) = (c(t, e_n) + θ p(t | e_{n−1})) / (c(e_n) + θ); the shortest ending is none, of words of the
    same shape (small, capital, with digits, no letters), and before it there is p(t) of all rare words.
    """

    rows: Mapping[int, int]  # from the key of an ending
    probabilities: Tensor  # (J + 1, K), that of all rare words last
    longest: int  # in bytes

    @classmethod
    def learned(
        cls, words: Iterable[tuple[bytes, Vector]], everything: Vector, *, longest: int, theta: float
    ) -> Endings:
        """The endings of rare words, each given with its counts by tag; `everything` is p(t) of all words."""
        counts: dict[int, Vector] = {}
        total = np.zeros_like(everything)
        shorter: dict[int, int] = {}
        for word, tags in words:
            total += tags
            before = -1
            for key in _keys(word, longest):
                counts[key] = counts[key] + tags if key in counts else tags
                shorter[key], before = before, key
        root = (total + theta * everything) / (total.sum() + theta)
        found: dict[int, Vector] = {-1: root}
        for key in sorted(counts, key=_length):
            found[key] = (counts[key] + theta * found[shorter[key]]) / (counts[key].sum() + theta)
        rows = {key: row for row, key in enumerate(sorted(counts))}
        table = np.stack([*(found[key] for key in rows), root])
        return cls(rows, torch.from_numpy(table), longest)

    def __call__(self, word: bytes) -> Tensor:
        """(K,): P(tag | word), by the longest ending that is known."""
        known = (self.rows[key] for key in reversed(_keys(word, self.longest)) if key in self.rows)
        return self.probabilities[next(known, -1)]

    def state_dict(self) -> dict[str, Tensor]:
        return {
            "endings": torch.tensor(list(self.rows), dtype=torch.long),
            "ending_probabilities": self.probabilities,
        }

    @classmethod
    def of(cls, given: StateReader, longest: int) -> Endings:
        """The endings that `state` came from."""
        keys = given.integers("endings", "J").tolist()
        probabilities = given.probabilities("ending_probabilities", "J and none", "K")
        expect(len(probabilities), len(keys) + 1, "the number of endings")
        return cls({key: row for row, key in enumerate(keys)}, probabilities, longest)


def _length(key: int) -> int:
    return key >> 2 & 7
