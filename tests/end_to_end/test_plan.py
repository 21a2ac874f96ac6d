"""`seqloom plan`, and training with a plan, tags and metadata columns, as a user types it."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import pytest

from seqloom.run.directory import Run
from seqloom.run.planner import plan as planning
from seqloom.run.planner.calibration import measure_speed
from support.commands import Command

STEPS = ("--plan", "auto", "--set", "train.max_steps=3", "--set", "train.threads=1", "--set", "model.width=16")


@pytest.fixture
def forms(tmp_path: Path) -> Path:
    """Lemmas, inflected forms and tags, without a header."""
    draw = random.Random(4)
    lemmas = ["".join(draw.choices("abcdefgh", k=5)) for _ in range(60)]
    endings = {"V;PST;SG": "ed", "N;PL": "s"}
    rows = [(lemma, lemma + ending, tags) for lemma in lemmas for tags, ending in endings.items()]
    path = tmp_path / "forms.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return path


def test_a_plan_is_printed_and_nothing_is_written(forms: Path, command: Command) -> None:
    done = command("plan", forms, "--set", "train.max_steps=100")
    assert done.code == 0, done.err
    assert "text.tokenizer" in done.out and "model.tag_positions" in done.out
    assert [path.name for path in forms.parent.iterdir()] == ["forms.tsv"]


def test_a_budget_predicts_time_and_memory(
    forms: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "measure_speed", partial(measure_speed, seconds=0.1))
    done = command("plan", forms, "--minutes", 2, "--json")
    plan = json.loads(done.out)
    assert plan["data"]["pairs"] == 120
    assert plan["prediction"]["minutes"] == 2
    assert plan["prediction"]["memory_mb"] > 0
    assert {"option", "value", "reason", "source"} == plan["choices"][0].keys()


def test_a_plan_is_part_of_the_run_and_resumes(forms: Path, command: Command, tmp_path: Path) -> None:
    done = command("train", forms, "--out", tmp_path / "run", *STEPS)
    assert done.code == 0, done.err
    assert "data.tags_column" in done.err
    run = Run.open(tmp_path / "run")
    choices = {choice["option"]: choice["value"] for choice in json.loads(run.plan_file.read_text())["choices"]}
    assert choices["model.name"] == run.config().model.name == "transformer"
    assert run.config().data.tags_column == "3"
    assert command("resume", run.folder, "--set", "train.max_steps=5").code == 0


def test_commands_read_the_tags_column_of_the_training_data(
    forms: Path, command: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert command("train", forms, "--out", run, *STEPS).code == 0
    table, text = tmp_path / "test.tsv", tmp_path / "test.txt"
    table.write_text("abc\tabced\tV;PST;SG\n")
    text.write_text("<V> <PST> <SG> abc\n")
    expected = json.loads(command("translate", run, text, "--json").out)
    actual = json.loads(command("translate", run, table, "--json").out)
    assert actual["source"] == "<V> <PST> <SG> abc"
    assert actual["hypotheses"] == expected["hypotheses"]
    assert "exact" in command("evaluate", run, table, "--metrics", "exact").out
    (tmp_path / "target.txt").write_text("abced\n")
    scores = [
        json.loads(command("score", run, *files, "--json").out)["log_prob"]
        for files in ((table,), ("--source", text, "--target", tmp_path / "target.txt"))
    ]
    assert scores[0] == pytest.approx(scores[1])


def test_tags_need_a_table(tmp_path: Path, command: Command) -> None:
    for side in ("a", "b"):
        (tmp_path / side).write_text("x\n")
    files = ("--source", tmp_path / "a", "--target", tmp_path / "b")
    done = command("train", *files, "--out", tmp_path / "run", "--set", "data.tags_column=3")
    assert done.code == 2
    assert "tags_column requires a table" in done.err


def test_fixed_and_unclear_tables_need_columns(forms: Path, command: Command, tmp_path: Path) -> None:
    done = command("train", forms, "--out", tmp_path / "run", "--plan", "fixed")
    assert done.code == 2
    assert "--source-column" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--plan", "best"), "plan"),
        (("--minutes", 5, "--set", "train.max_steps=3"), "--minutes and train.max_steps"),
        (("--minutes", 5, "--model", "hmm", "--source-column", 1, "--target-column", 2), "--minutes"),
    ],
    ids=str,
)
def test_wrong_options(
    forms: Path, command: Command, tmp_path: Path, options: tuple[object, ...], message: str
) -> None:
    done = command("train", forms, "--out", tmp_path / "run", *options)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "run").exists()


def test_a_model_without_rules(command: Command, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a b c\n" * 20)
    assert "no rules" in command("plan", text, "--model", "lm").out
