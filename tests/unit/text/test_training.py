"""SentencePiece training on ordinary lines and on lines that are difficult for its trainer."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from sentencepiece import SentencePieceProcessor

from seqloom.text.config import Kind
from seqloom.text.training import _without_long_repeats, train_sentencepiece


def _sentences(count: int, words: int = 9) -> list[str]:
    draw = random.Random(1)
    known = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 8))) for _ in range(300)]
    return ["".join(f"▁{word}" for word in draw.choices(known, k=words)) for _ in range(count)]


def _model(lines: list[str], kind: Kind = "unigram") -> bytes:
    return train_sentencepiece(lines, kind=kind, vocab_size=600, byte_fallback=True, symbols=()).model


def _pieces(lines: list[str], kind: Kind) -> list[str]:
    model = SentencePieceProcessor(model_proto=_model(lines, kind))
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]


ORDINARY = _sentences(300)
REPETITIVE: dict[str, Callable[[], list[str]]] = {
    "one character": lambda: ["▁" + "x" * 20_000],
    "spaces": lambda: ["▁" * 20_000],
    "a sentence 300 times in each of 40 lines": lambda: [line * 300 for line in _sentences(40)],
    "an equal line 2,000 times": lambda: ORDINARY[:1] * 2000,
    "a corpus three times": lambda: ORDINARY * 3,
    "a long document 20 times": lambda: [_sentences(1, 2000)[0] + line for line in ORDINARY[:20]],
}


@pytest.mark.parametrize("lines", REPETITIVE.values(), ids=REPETITIVE)
def test_repetitive_lines_take_about_a_second(lines: Callable[[], list[str]]) -> None:
    began = time.process_time()
    _model([*ORDINARY, *lines(), *ORDINARY[:5]])
    assert time.process_time() - began < 6  # without the countermeasures, each took 6 to 200 seconds


def test_ordinary_lines_are_not_changed() -> None:
    long = _sentences(5, 500)
    assert min(map(len, long)) > 2000
    assert _without_long_repeats([*ORDINARY, *long]) == [*ORDINARY, *long]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "word", "char"])
def test_line_order_does_not_matter(kind: Kind) -> None:
    lines = [*ORDINARY, *ORDINARY[:100]]
    assert _model(lines, kind) == _model(sorted(lines), kind)


@pytest.mark.parametrize("character", ["x", "ж", "𝄞"])
def test_a_word_that_is_too_long_for_a_piece_is_ignored(character: str) -> None:
    assert _pieces([*ORDINARY, "▁" + character * 10_000], "word") == _pieces(ORDINARY, "word")
