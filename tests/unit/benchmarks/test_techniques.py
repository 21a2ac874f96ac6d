"""The benchmark of training techniques: tagged tables, configurations and the table of means."""

from __future__ import annotations

import gzip
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from seqloom.errors import SeqloomError


@pytest.fixture
def techniques() -> ModuleType:
    return importlib.import_module("techniques")


def test_tags_become_symbols_before_the_lemma(techniques: ModuleType, tmp_path: Path) -> None:
    table = tmp_path / "forms.tsv.gz"
    table.write_bytes(gzip.compress(b"sagen\tsagte\tV;PST\n"))
    assert techniques.with_tags(table, tmp_path / "new" / "out.tsv").read_text() == "<V> <PST> sagen\tsagte\n"


def test_a_table_of_other_columns_is_an_error(techniques: ModuleType, tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("a\tb\tN\nc\td\n")
    with pytest.raises(SeqloomError, match="line 2: expected the columns"):
        techniques.with_tags(table, tmp_path / "out.tsv")


def test_a_technique_changes_its_options_only(techniques: ModuleType, tmp_path: Path) -> None:
    def options(name: str) -> dict[str, Any]:
        config = techniques.configure(tmp_path / "a.tsv", name, 3, 10, ["model.width=32"])
        return {
            f"{section}.{key}": value
            for section, values in config.model_dump().items()
            for key, value in values.items()
        }

    baseline = options("baseline")
    assert (baseline["train.seed"], baseline["train.max_steps"], baseline["model.width"]) == (3, 10, 32)
    for name, changed in techniques.TECHNIQUES.items():
        difference = {key: value for key, value in options(name).items() if baseline[key] != value}
        if name == "transformer-fast":
            changed = {**changed, "model.layers": 6, "model.decoder_layers": 1}
        assert difference == changed, name


def test_the_table_has_means_over_seeds(techniques: ModuleType) -> None:
    rows = [
        {"technique": "EMA", "seed": seed, "score": score, "low": 1, "high": 9, "training_seconds": 5}
        | {"decoding_seconds": 0.5}
        for seed, score in ((1, 40.0), (2, 42.0))
    ]
    lines = techniques.table(rows, "exact").splitlines()
    assert lines[2:] == ["| EMA | `train.ema=0.99` | 41.0 | [1.0, 9.0] | 2 | 5 | 0.5 |"]
