"""Word boundaries between tokens: which tokens begin or end with a letter or digit."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Scripts that put no space between words, or join a noun and its particles (Hangul).
_NO_SPACES = ("CJK ", "HIRAGANA ", "KATAKANA ", "HANGUL ", "THAI ", "LAO ", "KHMER ", "MYANMAR ")
_FIRST_BYTE_OF_SYMBOLS = 0xE2  # from here on, UTF-8 lead bytes are those of punctuation, CJK and emoji


class WordEdges(NamedTuple):
    """For every token whether it begins, and whether it ends, with a character of a word."""

    begins: Sequence[bool]
    ends: Sequence[bool]

    def joined(self, left: int, right: int) -> bool:
        """Return whether two neighbouring tokens belong to one word."""
        return self.ends[left] and self.begins[right]

    def select(self, tokens: Iterable[int]) -> WordEdges:
        """Return the edges of some tokens, renumbered in the given order."""
        chosen = list(tokens)
        return WordEdges([self.begins[token] for token in chosen], [self.ends[token] for token in chosen])


def word_edges(pieces: Iterable[bytes]) -> WordEdges:
    """Return the edges of tokens that stand for these pieces of UTF-8, with '▁' for a space."""
    begins, ends = zip(*map(_edges, pieces), strict=True)
    return WordEdges(begins, ends)


def _edges(piece: bytes) -> tuple[bool, bool]:
    if not piece:  # padding, start and end of a sentence
        return False, False
    try:
        text = piece.decode()
    except UnicodeDecodeError:  # one byte of a character
        return piece[0] < _FIRST_BYTE_OF_SYMBOLS, True
    return _in_word(text[0]), _in_word(text[-1])


def _in_word(character: str) -> bool:
    """Return whether the character continues a word: a letter, digit, mark or underscore."""
    if unicodedata.name(character, "").startswith(_NO_SPACES):
        return False
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")
