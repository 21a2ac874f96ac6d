"""The SCAN benchmark: what it records, the table made of it, and a run that was broken off."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from seqloom.errors import SeqloomError


@pytest.fixture
def scan() -> ModuleType:
    return importlib.import_module("scan")


@pytest.fixture
def trials() -> ModuleType:
    return importlib.import_module("trials")


def row(split: str, positions: str, exact: float) -> dict[str, Any]:
    return {
        "split": split,
        "positions": positions,
        "seed": 1,
        "exact": exact,
        "low": exact - 1,
        "high": exact + 1,
        "broken_off": 12.5,
    }


def test_only_a_true_beginning_is_broken_off(scan: ModuleType) -> None:
    references = [["A B C"]] * 4
    assert scan.truncated_share(["A B", "A B C", "A C", "A B C D"], references) == 25


def test_the_table_has_a_line_for_each_kind_of_position(scan: ModuleType) -> None:
    lines = scan.table([row("simple", "t5", 99.0), row("length", "t5", 20.0), row("length", "none", 2.0)])
    assert "| `t5` | 99.0 [98.0, 100.0] | 20.0 [19.0, 21.0] | 12.5 |" in lines
    assert "| `none` | – | 2.0 [1.0, 3.0] | 12.5 |" in lines
    assert len(lines.splitlines()) == 2 + len(scan.POSITIONS)


def test_seeds_become_their_mean(scan: ModuleType) -> None:
    rows = [row("simple", "t5", 90.0), row("simple", "t5", 94.0)]
    assert scan.by_split(rows, "exact") == {"simple": {"t5": [92.0, 91.0, 93.0]}}


def test_missing_files_are_named(scan: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"train_simple\.tsv\.gz"):
        scan.find_scan({"SEQLOOM_DATA": str(tmp_path)})


def test_every_kind_of_position_can_be_configured(scan: ModuleType, tmp_path: Path) -> None:
    for positions in scan.POSITIONS:
        config = scan.configure(tmp_path, "length", positions, seed=3, steps=None)
        assert config.model.positions == positions
        assert config.model.max_length > config.search.max_length(10)  # learned positions never run out


def test_what_is_recorded_can_be_read(trials: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.jsonl"
    assert trials.read_rows(file) == []
    for exact in (1.0, 2.0):
        trials.record(file, {"exact": exact})
    assert trials.read_rows(file) == [{"exact": 1.0}, {"exact": 2.0}]


def test_an_interrupted_run_has_no_result(
    trials: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "continue_run", lambda run, quiet: SimpleNamespace(finished=""))
    with pytest.raises(SeqloomError, match="interrupted"):
        trials.train_or_resume(None, tmp_path)


def test_a_bar_without_length_is_drawn_and_a_missing_one_named(trials: ModuleType) -> None:
    pytest.importorskip("matplotlib")
    bars = {"simple": {"none": [0.0, 0.0, 0.0], "t5": [50.0, 48.0, 52.0]}, "length": {"t5": [3.0, 2.0, 4.0]}}
    figure = trials.bar_figure(bars, label="exact", group="split", title="SCAN", width=6)
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.0", "not run", "50.0", "3.0"]
