"""Phrases that do not belong into messages, docstrings, comments, help texts and documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BANNED = [
    r"(?:is|are|was|were|be) told",
    r"told (?:of|by|from|where|which|what)",
    r"says? so",
    r"answers? that",
    r"go(?:es)? on (?:with|from|to|training)",
    r"like lengths?",
    r"(?<!there )is no (?:text|table|name|number|model|file|run|such thing|list|pair)",
    r"stands? (?:in|beside|behind|twice|for itself)",
    r"behind (?:it|them|each|the other)",
    r"so many (?:tokens|pairs|frames|words|batches|times|updates)",
    r"at the (?:most|least)\b(?! significant)",
    r"(?:a|every) stranger",
    r"mend(?:s|ed|ing)?",
    r"a person (?:who|should|sees|reads|wants)",
    r"it is one sentence",
    r"looked at(?: by| in)?",
    r"what (?:it|a model|the model) says",
    r"as many as (?:are good|there are)",
    r"likewise",
    r"of its own accord",
]
PATTERN = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)


def _texts() -> Iterator[Path]:
    for folder, pattern in (("src", "*.py"), ("benchmarks", "*.py"), ("docs", "*.md"), ("recipes", "*.yaml")):
        yield from (path for path in (ROOT / folder).rglob(pattern) if "_build" not in path.parts)
    yield from ROOT.glob("*.md")
    yield from (ROOT / "tests" / "golden" / "help").glob("*.txt")


def test_no_banned_phrases() -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{number}: {found[0]}"
        for path in _texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := PATTERN.search(line))
    ]
    assert faults == []


@pytest.mark.parametrize("text", ["The user is told.", "It says so.", "batches of like lengths", "mended"])
def test_the_pattern_finds_phrases(text: str) -> None:
    assert PATTERN.search(text)


def test_all_kinds_of_text_are_read() -> None:
    suffixes = {path.suffix for path in _texts()}
    assert suffixes == {".py", ".md", ".yaml", ".txt"}
