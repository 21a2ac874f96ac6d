"""Word boundaries between tokens, for every kind of tokenizer."""

from __future__ import annotations

from itertools import pairwise

import pytest

from seqloom.text.config import Kind
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.word_edges import word_edges


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [
        ("▁Thomas", "t", True),
        ("s", "5", True),
        ("s", "_", True),
        ("e", "\u0301", True),  # a combining accent
        ("▁Thomas", "▁ist", False),
        ("▁Thomas", ".", False),
        ("▁$", "5", False),
        ("▁(", "Thomas", False),
        ("東京", "都", False),  # no spaces between words
        ("ไทย", "ไป", False),
        ("한국", "은", False),
    ],
)
def test_two_pieces_are_joined_only_within_a_word(left: str, right: str, joined: bool) -> None:
    assert word_edges([left.encode(), right.encode()]).joined(0, 1) == joined


@pytest.mark.parametrize(("next_character", "joined"), [("ß", True), ("ж", True), ("…", False), ("東", False)])
def test_the_first_byte_shows_whether_a_character_is_a_letter(next_character: str, joined: bool) -> None:
    pieces = [b"s", *(bytes([byte]) for byte in next_character.encode())]
    edges = word_edges(pieces)
    assert edges.joined(0, 1) == joined
    assert all(edges.joined(place, place + 1) for place in range(1, len(pieces) - 1) if joined)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_tokens_of_a_written_word_are_joined(kind: Kind) -> None:
    lines = ["Thomas thinks, and Tom too.", "the %s of Tom's (big) house"] * 9
    tokenizer = Tokenizer.train(
        lines,
        kind=kind,
        vocab_size=320 if kind in ("bpe", "unigram") else 400,
        normalize="nfc",
        lowercase=False,
        collapse_spaces=True,
        byte_fallback=True,
        tags=(),
    )
    for line in lines[:2]:
        ids = tokenizer.encode(line)
        pieces = [piece.decode() for piece in tokenizer.bytes_of(ids)]
        for place, (left, right) in enumerate(pairwise(pieces)):
            inside = left[-1].isalnum() and right[0].isalnum()
            assert tokenizer.word_edges.joined(ids[place], ids[place + 1]) == inside
