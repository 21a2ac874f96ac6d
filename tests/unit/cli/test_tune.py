"""`seqloom tune`, with trials of a few steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.commands import Command
from support.configs import TINY, flags
from support.runs import write_digits, write_lines


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Arguments of a study of two trials of two steps."""
    pairs = write_digits(tmp_path / "pairs.tsv")
    fixed = {**TINY, "search.longest": 2}
    return [*map(str, ("tune", pairs, "--steps", 2, "--trials", 2, "--out", tmp_path / "study")), *flags(fixed)]


def test_a_study_reports_its_trials(command: Command, words: list[str], tmp_path: Path) -> None:
    done = command(*words)
    assert done.code == 0, done.err
    assert "best: trial" in done.out and "learning" in done.out and "seqloom tune search" in done.out
    assert "trial 1 of 2" in done.err and "left" in done.err
    assert {path.name for path in (tmp_path / "study").iterdir()} == {
        *("study.json", "journal.log", "results.json", "trials.png", "trial-001", "trial-002")
    }
    again = command(*words, "--json")
    assert json.loads(again.out) == json.loads((tmp_path / "study" / "results.json").read_text())
    assert "trial 1 of 2" not in again.err
    best = json.loads(again.out)["best"]
    run = tmp_path / "study" / f"trial-00{best}"
    assert command("translate", run, given="1 2\n").code == 0


def test_the_name_of_the_command_may_be_left_out(command: Command, words: list[str]) -> None:
    done = command("tune", "training", *words[1:], "--trials", 1, "--json")
    assert done.code == 0 and len(json.loads(done.out)["trials"]) == 1


def test_options_that_are_set_stay_fixed(command: Command, words: list[str]) -> None:
    done = command(*words, "--set", "train.learning_rate=0.002", "--json")
    trials = json.loads(done.out)["trials"]
    assert all({"train.learning_rate", "model.layers"}.isdisjoint(trial["options"]) for trial in trials)
    assert all("train.warmup" in trial["options"] for trial in trials)


def test_without_matplotlib_there_is_no_figure(
    command: Command, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.cli.tune_training.find_spec", lambda name: None)
    assert command(*words, "--trials", 1).code == 0
    assert not (tmp_path / "study" / "trials.png").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--minutes", "1"), "either --steps or --minutes"),
        (("-",), "cannot be used"),
        (("--metric", "blue"), "metric called 'blue'"),
        (("--space", "missing.yaml"), "missing.yaml"),
        (("--set", "train.learning_rat=1"), "train.learning_rate"),
        (("missing.tsv",), "missing.tsv"),
    ],
)
def test_a_wrong_option_is_an_error(
    command: Command, words: list[str], tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    done = command(*words, *more)
    assert done.code == 2 and message in done.err
    assert not (tmp_path / "study").exists()


def test_an_unknown_option_in_the_space(command: Command, words: list[str], tmp_path: Path) -> None:
    space = write_lines(tmp_path / "space.yaml", ["train.lr: {low: 0.1, high: 1.0}"])
    done = command(*words, "--space", space)
    assert done.code == 2 and "train.lr" in done.err and "train.learning_rate" in done.err
    assert not (tmp_path / "study").exists()


def test_a_budget_is_required(command: Command, words: list[str]) -> None:
    at = words.index("--steps")
    done = command(*words[:at], *words[at + 2 :])
    assert done.code == 2 and "--minutes" in done.err


def test_without_optuna(command: Command, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    done = command(*words)
    assert done.code == 2 and "seqloom[tune]" in done.err


def test_help(command: Command) -> None:
    assert "training" in command("tune", "--help").out
    assert "--trials" in command("tune", "training", "--help").out
    assert command("tune").code == 2
