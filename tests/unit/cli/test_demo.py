"""`seqloom demo`: what it prints and where it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seqloom import demo
from seqloom.cli.demo import _free
from seqloom.cli.main import app
from seqloom.demo import DemoResult
from seqloom.evaluate.metrics import evaluate


def test_a_free_name_is_found(tmp_path: Path) -> None:
    wanted = tmp_path / "demo"
    assert _free(wanted) == wanted
    wanted.mkdir()
    assert _free(wanted) == tmp_path / "demo-2"
    (tmp_path / "demo-2").mkdir()
    assert _free(wanted) == tmp_path / "demo-3"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the command asked of `run_demo`, which does not run."""
    calls: list[Any] = []

    def run_demo(task: demo.DemoTask, out: Path, *, minutes: float | None, style: str) -> DemoResult:
        calls.append((task.name, out, minutes, style))
        scores = evaluate(["a", "b"], [["a"], ["c"]], "exact")
        shown = [("one", "a", ["a", "b"]), ("two", "b", ["c"])]
        return DemoResult(out, Path("test.tsv"), out / "attention.png", scores, shown, finished=True)

    monkeypatch.setattr(demo, "run_demo", run_demo)
    return calls


def test_it_shows_right_and_wrong_answers_and_what_to_try_next(asked: list[Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = CliRunner().invoke(app, ["demo", "--task", "dates", "--minutes", "0.5", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert asked == [("dates", out, 0.5, "page")]
    assert "✓ a" in result.output
    assert "✗ b" in result.output
    assert "exact 50.0" in result.output
    assert f"seqloom evaluate {out} test.tsv --metrics exact,cer --group-by-source" in result.output


def test_without_a_folder_it_takes_the_first_free_one(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "demo-numbers").mkdir(parents=True)
    CliRunner().invoke(app, ["demo", "--task", "numbers"])
    assert asked == [("numbers", Path("runs/demo-numbers-2"), None, "page")]
