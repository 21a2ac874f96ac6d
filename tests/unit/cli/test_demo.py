"""`seqloom demo`: output and files."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from seqloom import demo
from seqloom.cli.demo import _program, _unused_path
from seqloom.demo import DemoData, DemoPrediction, DemoResult, DemoTask
from seqloom.evaluate.metrics import evaluate
from seqloom.training.checkpoint import TrainState
from seqloom.types import Example
from support.commands import Result, run_command


def test_an_unused_path_is_found(tmp_path: Path) -> None:
    path = tmp_path / "demo"
    assert _unused_path(path) == path
    path.mkdir()
    assert _unused_path(path) == tmp_path / "demo-2"
    (tmp_path / "demo-2").mkdir()
    assert _unused_path(path) == tmp_path / "demo-3"


@dataclass
class FakeDemo:
    """A demo that trains nothing: how far it gets, and the calls it received."""

    steps: int = 10**6
    finished: str = "reached train.max_steps"
    calls: list[tuple[str, Path, float | None, str]] = field(default_factory=list)

    def train(self, task: DemoTask, data: DemoData, out: Path, *, minutes: float | None) -> TrainState:
        self.calls.append((task.name, out, minutes, ""))
        return TrainState(step=self.steps, finished=self.finished)

    def evaluate(self, task: DemoTask, data: DemoData, run: Path, *, style: str) -> DemoResult:
        self.calls[-1] = (*self.calls[-1][:3], style)
        predictions = [DemoPrediction("one", "a", ["a", "b"]), DemoPrediction("two", "b", ["c", "d"])]
        scores = evaluate(["a", "b"], [["a"], ["c"]], ",".join(task.metrics))
        return DemoResult(scores, predictions, run / "attention.png")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeDemo:
    fake = FakeDemo()
    pairs = [Example("1 May 2001", "2001-05-01", 1, "")]

    def prepare_data(task: DemoTask, folder: Path) -> DemoData:
        return DemoData(pairs, pairs, folder / "train.tsv", folder / "test.tsv")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "prepare_data", prepare_data)
    monkeypatch.setattr(demo, "train_demo", fake.train)
    monkeypatch.setattr(demo, "evaluate_demo", fake.evaluate)
    monkeypatch.setenv("PATH", "")
    return fake


def run_demo(*arguments: str) -> Result:
    return run_command("demo", "--task", "dates", *arguments, program=".venv/bin/seqloom")


def test_it_marks_correct_and_wrong_outputs(fake: FakeDemo) -> None:
    result = run_demo("--minutes", "0.5", "--style", "slide", "--out", "runs/it")
    assert result.code == 0, result.err
    assert fake.calls == [("dates", Path("runs/it"), 0.5, "slide")]
    rows = [line.split() for line in result.out.splitlines()]
    assert ["✓", "one", "a"] in rows
    assert ["✗", "two", "b", "c", "or", "d"] in rows
    assert "50.0 % of the dates are correct" in result.out
    assert "runs/it/attention.png" in result.out


def test_it_prints_commands_for_the_shell_it_runs_in(fake: FakeDemo) -> None:
    output = run_demo("--out", "runs/the first").out
    commands = [shlex.split(line) for line in output.splitlines() if ".venv/bin/seqloom" in line]
    assert commands == [
        [
            "echo",
            "den 3. Oktober 1990",
            "|",
            ".venv/bin/seqloom",
            "translate",
            "runs/the first",
            "--nbest",
            "3",
        ],
        [
            *(".venv/bin/seqloom", "evaluate", "runs/the first", "runs/the first-data/test.tsv"),
            *("--metrics", "exact,cer", "--group-by-source"),
        ],
        [
            *(".venv/bin/seqloom", "train", "runs/the first-data/train.tsv"),
            *("--config", "runs/the first/config.yaml", "--out", "runs/mine"),
        ],
        [".venv/bin/seqloom", "studio", "runs/the first"],
    ]


def test_on_a_slow_machine_it_explains_the_result(fake: FakeDemo) -> None:
    assert "slow or busy" not in run_demo("--out", "fast").out
    fake.steps = 123
    assert "slow or busy: 123 of" in run_demo("--out", "slow").out
    assert "slow or busy" not in run_demo("--out", "asked", "--minutes", "1").out


def test_stopped_training_is_not_evaluated(fake: FakeDemo) -> None:
    fake.finished = ""
    result = run_demo("--out", "runs/it")
    assert result.code == 130
    assert "seqloom resume runs/it" in result.out
    assert "%" not in result.out


def test_without_a_folder_it_uses_the_first_unused_one(fake: FakeDemo, tmp_path: Path) -> None:
    (tmp_path / "runs" / "demo-dates").mkdir(parents=True)
    run_demo()
    assert fake.calls == [("dates", Path("runs/demo-dates-2"), None, "page")]


def test_the_program_is_printed_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "seqloom"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(program.parent))
    assert _program() == ["seqloom"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _program() == [str(program)]
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "seqloom" / "__main__.py")])
    assert _program() == [sys.executable, "-m", "seqloom"]
