"""The tagging benchmark: tables and accuracy by kind of word."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


class Fixed:
    """Translator that gives every word the tag N."""

    def translate(self, lines: list[str]) -> list[list[Any]]:
        return [[type("Best", (), {"text": " ".join("N" for _ in line.split())})] for line in lines]


@pytest.fixture
def labels() -> ModuleType:
    return importlib.import_module("labels")


def test_new_words_are_counted_separately(labels: ModuleType, tmp_path: Path) -> None:
    rows = [(["the", "man"], ["D", "N"]), (["zebra", "runs"], ["N", "V"])]
    found = labels.accuracy(Fixed(), rows, {"the", "man"})
    assert found == pytest.approx({"accuracy": 50.0, "accuracy_new_words": 50.0})
    found = labels.accuracy(Fixed(), rows, {"the", "man", "runs"})
    assert found["accuracy_new_words"] == 100.0
    table = labels.write_table(tmp_path / "a" / "train.tsv", rows)
    assert table.read_text() == "the man\tD N\nzebra runs\tN V\n"
