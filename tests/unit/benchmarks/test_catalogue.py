"""Comparison of a translated catalogue with a human translation."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from seqloom.errors import SeqloomError

HUMAN = (
    'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "a dog"\nmsgstr "ein Hund"\n\nmsgid "new"\nmsgstr ""\n\n'
    'msgctxt "pet"\nmsgid "cat"\nmsgid_plural "cats"\nmsgstr[0] "Katze"\nmsgstr[1] "Katzen"\n\n'
    '#, fuzzy\nmsgid "old"\nmsgstr "alt"\n'
)


def test_texts_with_a_human_translation_are_compared(tmp_path: Path) -> None:
    catalogue = importlib.import_module("catalogue")
    read_texts, describe = catalogue.read_texts, catalogue.describe
    human, translated = tmp_path / "human.po", tmp_path / "translated.po"
    human.write_text(HUMAN)
    translated.write_text(HUMAN.replace("Katzen", "Hunde").replace('msgctxt "pet"', '#, fuzzy\nmsgctxt "pet"'))
    texts = read_texts(str(translated), str(human))
    assert [(one.source, one.output, one.human, one.is_fuzzy) for one in texts] == [
        ("a dog", "ein Hund", "ein Hund", False),
        ("cat", "Katze", "Katze", True),
        ("cats", "Hunde", "Katzen", True),
    ]
    assert describe("all", texts).startswith("all: 3; ")
    assert "equal to the human translation: 2; marked fuzzy: 2" in describe("all", texts)
    assert describe("none", []) == "none: 0"
    translated.write_text('msgid "other"\nmsgstr "x"\n')
    with pytest.raises(SeqloomError, match="no text in common"):
        read_texts(str(translated), str(human))
