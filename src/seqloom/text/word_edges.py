"""Word boundaries between tokens: which tokens begin or end with a letter or digit."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Scripts without spaces between words, or in which a noun and its particles are joined (Hangul).
_NO_SPACES = ("CJK ", "HIRAGANA ", "KATAKANA ", "HANGUL ", "THAI ", "LAO ", "KHMER ", "MYANMAR ")
_FIRST_BYTE_OF_SYMBOLS = 0xE2  # the first UTF-8 lead byte of punctuation, CJK and emoji


class WordEdges(NamedTuple):
    """Whether each token begins, and whether it ends, with a word character."""

    begins: Sequence[bool]
    ends: Sequence[bool]

    def joined(self, left: int, right: int) -> bool:
        """Return whether two adjacent tokens belong to the same word."""
        return self.ends[left] and self.begins[right]

    def select(self, tokens: Iterable[int]) -> WordEdges:
        """Return the edges of some tokens, renumbered in the given order."""
        chosen = list(tokens)
        return WordEdges([self.begins[token] for token in chosen], [self.ends[token] for token in chosen])


def word_edges(pieces: Iterable[bytes]) -> WordEdges:
    """Return the edges of tokens with these UTF-8 pieces, in which '▁' is a space."""
    begins, ends = zip(*map(_edges, pieces), strict=True)
    return WordEdges(begins, ends)


def _edges(piece: bytes) -> tuple[bool, bool]:
    if not piece:  # padding, start and end of sentence
        return False, False
    try:
        text = piece.decode()
    except UnicodeDecodeError:  # a single byte of a character
        return piece[0] < _FIRST_BYTE_OF_SYMBOLS, True
    return in_word(text[0]), in_word(text[-1])


def in_word(character: str) -> bool:
    """Return whether the character continues a word: a letter, digit, mark or underscore."""
    if unicodedata.name(character, "").startswith(_NO_SPACES):
        return False
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")
