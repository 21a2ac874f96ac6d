"""Portable tokenizers: plain SentencePiece encodes and decodes normalised text identically."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer

LINES = ["Ein Haus am See", "das Haus, der See!", "die Häuser am Fluss", "Köln ist groß", "if x:\n    return y"]
OTHERS = [
    "  Haus   am  ",
    "Strände und Café",
    "数字 und 🙂",
    "",
    "a\u00a0b\u3000c",
    "Haus ",
    "<2de> Haus am See",
    "<2de>",
    "x <2de> y",
    "<s> </s> <unk> <pad>",
    "<0x20>",
]


def train(**options: Any) -> Tokenizer:
    text = TextConfig.checked({"vocab_size": 400, "tags": ("<2de>",), **options}, "text")
    return TokenizerPair.train(text, lambda: ((line, line) for line in LINES * 3)).target


def plain(tokenizer: Tokenizer) -> Any:
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.portable().model)


@pytest.mark.parametrize(
    ("kind", "fallback", "collapse"),
    [*product(["unigram", "bpe", "char", "word"], [True, False], [True, False])],
)
def test_plain_sentencepiece_agrees(kind: str, fallback: bool, collapse: bool) -> None:
    ours = train(tokenizer=kind, byte_fallback=fallback, collapse_spaces=collapse)
    theirs = plain(ours)
    for line in (*LINES, *OTHERS):
        text, ids = ours.normalize(line), ours.encode(line)
        assert theirs.encode(text) == ids, line
        decoded = theirs.decode([ours.names[id] for id in ids])
        if kind == "word":  # the bytes of an unknown word include its space mark
            decoded = decoded.removeprefix("▁").replace("▁", " ")
        assert decoded == ours.decode(ids), line


@pytest.mark.parametrize("options", [{"lowercase": True}, {"normalize": "nfkc"}, {"preset": "code"}])
def test_plain_sentencepiece_agrees_for_every_normalisation(options: dict[str, Any]) -> None:
    ours = train(**options)
    for line in (*LINES, *OTHERS, "ﬁn ＡＢＣ Straße"):
        assert plain(ours).encode(ours.normalize(line)) == ours.encode(line)


def test_a_portable_tokenizer_equals_the_original(tmp_path: Path) -> None:
    ours = train()
    ours.portable().save(tmp_path, "joint")
    again = Tokenizer.load(tmp_path, "joint")
    for line in (*LINES, *OTHERS, "▁ and \t and \ue009 and [MASK]"):
        assert again.encode(line) == ours.encode(line)
        assert again.decode(ours.encode(line)) == ours.decode(ours.encode(line))
    assert again.portable().encode("Haus am See") == ours.encode("Haus am See")
