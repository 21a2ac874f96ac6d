"""`seqloom compare`, with systems that run in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.compare import prepare, runner
from seqloom.compare.worker import INTERRUPTED
from support.commands import Command
from support.comparisons import MODELS, OPTIONS, in_process, write_pairs
from support.configs import flags


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "start_process", in_process)
    monkeypatch.setattr(prepare, "_SPEED_SECONDS", 0.01)


def _words(folder: Path, **changes: Any) -> list[str]:
    """Return the command of a comparison of counted models, which needs no training."""
    pairs = write_pairs(folder / "pairs.tsv")
    options = {"models": "word-based,phrase", "steps": 2, "out": folder / "cmp", **changes}
    named = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    tiny = {"model.tune_sentences": 5, "model.tune_rounds": 1, "train.threads": 1}
    return ["compare", str(pairs), *named, *flags(tiny)]


def test_a_comparison_prints_a_table_and_writes_a_report(command: Command, tmp_path: Path) -> None:
    done = command(*_words(tmp_path))
    assert done.code == 0, done.err
    assert "word-based" in done.out and "to the best" in done.out and "sentences/s" in done.out
    assert "time: the time to fit word-based, phrase" in done.err
    assert done.err.index("time:") < done.err.index("1 of 2")  # before anything is trained
    page = (tmp_path / "cmp" / "report.html").read_text(encoding="utf-8")
    assert "seqloom compare" in page and "--models word-based,phrase" in page
    again = command(*_words(tmp_path), "--json")
    assert "1 of 2" not in again.err and "time:" not in again.err
    results = json.loads(again.out)
    assert results == json.loads((tmp_path / "cmp" / "results.json").read_text(encoding="utf-8"))
    assert [row["label"] for row in results["models"]] == ["word-based", "phrase"]
    assert results["budget"] == "2 updates"


def test_a_yaml_file_has_the_options(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "compare.yaml"
    models = {"lstm-last": MODELS["lstm-last"], "broken": {"model.name": "hmm"}}
    content = {"pairs": str(write_pairs(tmp_path / "pairs.tsv")), "models": models, "steps": 2}
    content |= {"set": OPTIONS[0], "out": str(tmp_path / "cmp"), "metrics": "exact"}
    file.write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML
    done = command("compare", file)
    assert done.code == 0, done.err
    assert "exact" in done.out and "lstm-last" in done.out


def test_an_interruption_is_reported(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "start_process", lambda *_: INTERRUPTED)
    done = command(*_words(tmp_path))
    assert done.code == 130 and "same command again" in done.err
    assert (tmp_path / "cmp" / "report.html").is_file()


def test_a_failure_is_reported(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "start_process", lambda *_: 1)
    done = command(*_words(tmp_path))
    assert done.code == 0 and "phrase failed: The process ended with exit code 1." in done.out
    assert "--retry" in done.out


@pytest.mark.parametrize(
    ("changes", "extra", "message"),
    [
        ({"out": None}, [], "No folder"),
        ({"minutes": 1}, [], "budget is given twice"),
        ({}, ["-"], "- cannot be used"),
        ({}, ["other.yaml"], "only argument"),
        ({"models": "phrasee"}, [], "phrasee"),
        ({"metrics": "distinct1"}, [], "no test of significance"),
        ({}, ["--set", "data.context=1"], "drawn line by line"),
    ],
)
def test_usage_errors(
    command: Command, tmp_path: Path, changes: dict[str, Any], extra: list[str], message: str
) -> None:
    done = command(*_words(tmp_path, **changes), *extra)
    assert done.code == 2 and message in done.err
    assert not (tmp_path / "cmp").exists()


def test_out_of_a_file_must_be_a_name(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "compare.yaml"
    file.write_text("pairs: a.tsv\nout: [1]\n")
    done = command("compare", file)
    assert done.code == 2 and "name of a folder" in done.err
