"""Advice on options that do not fit the data."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from seqloom.run.config import compose
from seqloom.run.train import create
from support.configs import TINY
from support.runs import write_lines


def advice_for(folder: Path, rows: list[str], messages: list[str], **changes: Any) -> str:
    """Return the advice that a new run logs."""
    table = write_lines(folder / "pairs.tsv", rows)
    names = {name.replace("__", "."): value for name, value in changes.items()}
    create(compose(values={**TINY, "data.train": str(table), **names}), folder / "run")
    return "\n".join(message for message in messages if message.startswith("advice"))


@pytest.fixture
def words() -> list[str]:
    draw = random.Random(1)
    return ["".join(draw.choices("abcdefgh", k=draw.randint(3, 8))) for _ in range(2000)]


def test_subwords_of_single_words(words: list[str], tmp_path: Path, messages: list[str]) -> None:
    rows = [f"{word}\t{' '.join(word)}" for word in words]
    found = advice_for(tmp_path, rows, messages, text__tokenizer="unigram", text__vocab_size=200)
    assert "text.tokenizer=unigram" in found and "char" in found


def test_large_batches_of_short_lines(words: list[str], tmp_path: Path, messages: list[str]) -> None:
    rows = [f"{word}\t{word.upper()}" for word in words]
    found = advice_for(tmp_path, rows, messages, text__tokenizer="char", train__batch_tokens=4096)
    assert "train.batch_tokens=4096" in found
    assert "text.tokenizer" not in found


@pytest.mark.parametrize("kind", ["unigram", "char"])
def test_no_advice_for_sentences_in_moderate_batches(
    words: list[str], tmp_path: Path, messages: list[str], kind: str
) -> None:
    rows = [f"{a} {b} {c}\t{c} {b} {a}" for a, b, c in zip(words, words[1:], words[2:], strict=False)]
    options = {"text__tokenizer": kind, "text__vocab_size": 200, "train__batch_tokens": 1024}
    assert not advice_for(tmp_path, rows, messages, **options)
