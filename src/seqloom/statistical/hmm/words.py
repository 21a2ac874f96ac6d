"""Words of a text, with unseen words spelled in bytes, and tag probabilities by word ending."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.statistical.state_reader import StateReader, expect_size
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import UNK

Vector = NDArray[np.float64]

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_MARK = "▁".encode()  # start of a word
_LOWER, _UPPER, _DIGIT, _OTHER = range(4)


class Word(NamedTuple):
    """A word: the position of its first token, and its id, or UNK with its spelling."""

    position: int
    id: int
    spelling: bytes = b""


def byte_table(tokenizer: Tokenizer) -> Tensor:
    """Return the byte value of each id, (V,); −1 for ids that are not bytes."""
    ids = range(tokenizer.size)
    values = [
        encoded[0] if _BYTE.fullmatch(piece) else -1
        for piece, encoded in zip(tokenizer.pieces(ids), tokenizer.bytes_of(ids), strict=True)
    ]
    return torch.tensor(values, dtype=torch.int16)


def words_of(ids: Iterable[int], byte_of: list[int]) -> list[Word]:
    """Return the words of a text: one per id, but a run of byte ids is split at its word marks."""
    words: list[Word] = []
    run, start = bytearray(), 0
    for position, id in enumerate(ids):
        if byte_of[id] >= 0:
            start = start if run else position
            run.append(byte_of[id])
            continue
        words += _split_run(run, start)
        run.clear()
        words.append(Word(position, id))
    return words + _split_run(run, start)


def _split_run(run: bytearray, start: int) -> list[Word]:
    """Return the words of a run of bytes; any bytes before the first mark are a word, too."""
    words, position = [], start
    for number, part in enumerate(bytes(run).split(_MARK)):
        if part or number:
            words.append(Word(position, UNK, part))
        position += len(part) + (len(_MARK) if number else 0)
    return words


def spelling(piece: bytes) -> bytes:
    """Return a word without its mark."""
    return piece.removeprefix(_MARK)


def _shape(word: bytes) -> int:
    text = word.decode("utf-8", errors="replace")
    if any(char.isdigit() for char in text):
        return _DIGIT
    if text[:1].isupper():
        return _UPPER
    return _LOWER if any(char.isalpha() for char in text) else _OTHER


def _keys(word: bytes, longest: int) -> list[int]:
    """Return a key for every ending of a word, from the empty to the longest; it includes the word's shape."""
    shape = _shape(word)
    lengths = range(min(longest, len(word)) + 1)
    return [int.from_bytes(word[len(word) - n :]) << 5 | n << 2 | shape for n in lengths]


@dataclass(frozen=True)
class Endings:
    """P(tag | ending of a rare word), each ending smoothed by the next shorter one (after Brants 2000, TnT).

    p(t | e_n) = (c(t, e_n) + θ p(t | e_{n−1})) / (c(e_n) + θ); the shortest ending is empty and covers all rare
    words of one shape (lower case, capitalised, with digits, no letters); it is smoothed by p(t) of them all.
    """

    rows: Mapping[int, int]  # key of an ending -> row of `probabilities`
    probabilities: Tensor  # (J + 1, K); the last row is p(t) of all rare words
    longest: int  # in bytes

    @classmethod
    def estimate(
        cls, words: Iterable[tuple[bytes, Vector]], tag_probs: Vector, *, longest: int, theta: float
    ) -> Endings:
        """Estimate from rare words, each with its counts by tag; `tag_probs` is p(t) of all words."""
        counts: dict[int, Vector] = {}
        total = np.zeros_like(tag_probs)
        shorter: dict[int, int] = {}
        for word, tags in words:
            total += tags
            previous = -1
            for key in _keys(word, longest):
                counts[key] = counts[key] + tags if key in counts else tags
                shorter[key], previous = previous, key
        root = (total + theta * tag_probs) / (total.sum() + theta)
        smoothed: dict[int, Vector] = {-1: root}
        for key in sorted(counts, key=_length):
            smoothed[key] = (counts[key] + theta * smoothed[shorter[key]]) / (counts[key].sum() + theta)
        rows = {key: row for row, key in enumerate(sorted(counts))}
        table = np.stack([*(smoothed[key] for key in rows), root])
        return cls(rows, torch.from_numpy(table), longest)

    def __call__(self, word: bytes) -> Tensor:
        """Return P(tag | word), (K,), by the longest known ending."""
        known = (self.rows[key] for key in reversed(_keys(word, self.longest)) if key in self.rows)
        return self.probabilities[next(known, -1)]

    def state_dict(self) -> dict[str, Tensor]:
        return {
            "endings": torch.tensor(list(self.rows), dtype=torch.long),
            "ending_probabilities": self.probabilities,
        }

    @classmethod
    def from_state(cls, reader: StateReader, longest: int) -> Endings:
        """Restore the endings from a state dict."""
        keys = reader.integers("endings", "J").tolist()
        probabilities = reader.probabilities("ending_probabilities", "J + 1", "K")
        expect_size(len(probabilities), len(keys) + 1, "number of endings")
        return cls({key: row for row, key in enumerate(keys)}, probabilities, longest)


def _length(key: int) -> int:
    return key >> 2 & 7
