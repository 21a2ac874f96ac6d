"""benchmarks/defaults.py on a small data set."""

from __future__ import annotations

import gzip
import importlib
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def defaults() -> ModuleType:
    return importlib.import_module("defaults")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "scan"
    folder.mkdir()
    lines = [f"walk {a} {b}\tW {a} {b}\n" for a in range(20) for b in range(20)]
    with gzip.open(folder / "train_simple.tsv.gz", "wt") as file:
        file.writelines(lines + lines[:5])
    return tmp_path


def test_sources_are_in_one_part_only(data: Path, defaults: ModuleType) -> None:
    train, dev = defaults.split("scan/train_simple.tsv.gz", held_out=100)(data)
    assert len(train) + len(dev) == 405
    assert len({row[0] for row in dev}) == 100
    assert not {row[0] for row in train} & {row[0] for row in dev}


def test_both_modes_are_measured(
    data: Path, defaults: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = defaults.DataSet(defaults.split("scan/train_simple.tsv.gz", held_out=20), "exact", seeds=1)
    monkeypatch.setitem(defaults.SETS, "scan", small)
    arguments = Namespace(data=data, work=tmp_path / "work", threads=1)
    rows = [
        {"name": "scan", "mode": mode, "seed": 1, "minutes": 0.02}
        | defaults.measure("scan", mode, 1, 0.02, arguments)
        for mode in defaults.MODES
    ]
    assert rows[0]["options"]["text.tokenizer"] == "word"
    assert rows[1]["options"] == {}
    header, line = defaults.table(rows)
    assert line.split()[:3] == ["scan", "exact", "0.02"]
    assert len(header.split()) == 7


def test_tags_are_columns_of_the_constants(tmp_path: Path, defaults: ModuleType) -> None:
    file = tmp_path / "forms.tsv"
    file.write_text("go\twent\tV;PST\nhouse\thouses\tN;PL\n")
    assert defaults.columns(file)["data.tags_column"] == "3"
    file.write_text("a\tb\nc\td\n")
    assert defaults.columns(file) == {}
