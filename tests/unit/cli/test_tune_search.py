"""`seqloom tune search`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from seqloom.run.directory import Run
from support.commands import Command
from support.configs import SHORT_OUTPUTS, TINY
from support.runs import train_run, write_digits, write_lines

SMALL = ("--beams", "1,2", "--penalties", "0,1", "--norms", "length")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run whose metric is exact."""
    folder = tmp_path_factory.mktemp("tuned")
    settings = {
        **TINY,
        **SHORT_OUTPUTS,
        "search.beam": 3,
        "train.max_steps": 2,
        "train.metrics": "chrf,exact",
        "train.best_by": "exact",
    }
    return train_run(folder / "run", write_digits(folder / "digits.tsv"), settings).folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run", symlinks=True))


def test_it_writes_the_chosen_options_into_the_run(run: Path, command: Command, tmp_path: Path) -> None:
    before = Run.open(run).config()
    done = command("tune", "search", run, *SMALL, "--json")
    report = json.loads(done.out)
    assert done.code == 0 and report["written"] and report["metric"] == "exact"
    assert report["before"] == {"beam": 3, "length_norm": "length", "length_penalty": 1.0}
    assert {(one["beam"], one["length_penalty"]) for one in report["settings"]} == {
        (1, 1.0),
        (2, 0.0),
        (2, 1.0),
        (3, 1.0),
    }
    after = Run.open(run).config()
    assert after.search == before.search.model_copy(update=report["chosen"])
    assert (after.model, after.train, after.data) == (before.model, before.train, before.data)
    used = json.loads(command("evaluate", run, write_digits(tmp_path / "t.tsv"), "--json").out)
    assert used["settings"]["beam"] == report["chosen"]["beam"]

    again = json.loads(command("tune", "search", run, "--beams", 4, "--metric", "chrf", "--json").out)
    history = json.loads((run / "search-tuning.json").read_text())["history"]
    assert [entry["before"] for entry in history] == [report["before"], report["chosen"]]
    assert [entry["after"] for entry in history] == [report["chosen"], again["chosen"]]
    assert [entry["metric"] for entry in history] == ["exact", "chrf"]


def test_a_dry_run_changes_nothing(run: Path, command: Command, tmp_path: Path) -> None:
    before = (run / "config.yaml").read_bytes()
    pairs = write_lines(tmp_path / "valid.tsv", ["1 2\t1", "3 4\t3", "5 1\t5"])
    done = command("tune", "search", run, pairs, *SMALL, "--lines", 2, "--dry-run")
    assert done.code == 0, done.err
    assert "2 lines" in done.out and "sentences/s" in done.out and "--dry-run" in done.out
    assert "standard error" in done.out and "search.beam=" in done.out
    assert (run / "config.yaml").read_bytes() == before
    assert not (run / "search-tuning.json").exists()


def test_a_run_in_training_is_not_changed(run: Path, command: Command) -> None:
    from seqloom.run.guards import exclusive_training

    with exclusive_training(Run.open(run)):
        done = command("tune", "search", run, *SMALL)
        assert done.code == 2 and "is being trained" in done.err
        assert command("tune", "search", run, *SMALL, "--dry-run").code == 0


def test_a_run_without_validation_data_needs_a_table(command: Command, tmp_path: Path) -> None:
    pairs = write_digits(tmp_path / "digits.tsv")
    settings = {**TINY, **SHORT_OUTPUTS, "data.valid_share": 0.0, "train.max_steps": 1}
    train_run(tmp_path / "run", pairs, settings)
    done = command("tune", "search", tmp_path / "run", *SMALL)
    assert done.code == 2 and "no validation data" in done.err and "table" in done.err
    assert command("tune", "search", tmp_path / "run", pairs, *SMALL).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--metric", "blue"), "metric called 'blue'"),
        (("--metric", "bleu,chrf"), "one metric"),
        (("--beams", "x"), "search.beam"),
        (("--source-column", "2"), "--source-column"),
        (("missing.tsv",), "missing.tsv"),
    ],
)
def test_a_wrong_option_is_an_error(run: Path, command: Command, words: tuple[str, ...], message: str) -> None:
    done = command("tune", "search", run, *words)
    assert done.code == 2 and message in done.err


def test_a_model_with_its_own_search_is_refused(command: Command, phrase: Path) -> None:
    done = command("tune", "search", phrase)
    assert done.code == 2 and "own search" in done.err


def test_an_imported_run_needs_a_table(run: Path, command: Command) -> None:
    opened = Run.open(run)
    config = opened.config()
    data = config.data.model_copy(update={"train": ()})
    opened.config_file.write_text(config.model_copy(update={"data": data}).to_yaml())
    done = command("tune", "search", run)
    assert done.code == 2 and "imported" in done.err and "table" in done.err
