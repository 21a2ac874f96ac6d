"""A finished run with a raised limit equals a run that had this limit from the start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.run import train as pipeline
from seqloom.run.directory import Run
from support.configs import TINY
from support.runs import create_run, train_run, write_digits

SETTINGS: dict[str, Any] = {
    **TINY,
    "model.dropout": 0.1,
    "train.checkpoint_every": 2,
    "train.log_every": 2,
    "train.warmup": 3,
}


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """made(name, **options): a trained run in a folder of that name."""
    table = write_digits(tmp_path / "pairs.tsv")
    return lambda name, **options: train_run(tmp_path / name, table, {**SETTINGS, **options})


def extend(run: Run, *limits: str) -> str:
    return pipeline.continue_run(run, limits=limits, quiet=True).finished


def reports(run: Run) -> list[dict[str, Any]]:
    """Return the entries of metrics.jsonl without values that depend on time and memory."""
    timed = {"seconds", "tokens_per_second", "memory_mb"}
    return [{name: value for name, value in line.items() if name not in timed} for line in run.metrics()]


@pytest.mark.parametrize("schedule", ["inverse-sqrt", "constant"])
def test_more_steps_give_the_longer_run(made: Any, schedule: str) -> None:
    options = {"train.schedule": schedule, "train.average": 2}
    whole = made("whole", **{**options, "train.max_steps": 8})
    parts = made("parts", **{**options, "train.max_steps": 4})
    assert extend(parts, "train.max_steps=8") == "reached train.max_steps=8"
    for step in ("step-8", "average"):
        for file in sorted((whole.folder / "checkpoints" / step).glob("*.safetensors")):
            assert (parts.folder / "checkpoints" / step / file.name).read_bytes() == file.read_bytes()
    assert reports(parts) == reports(whole)
    links = [os.readlink(run.folder / "checkpoints" / "best") for run in (whole, parts)]
    assert links[0] == links[1]
    assert parts.config() == whole.config()


def test_patience_and_epochs_can_be_raised(made: Any) -> None:
    run = made("run", **{"train.max_epochs": 2, "train.batch_tokens": 40})
    assert extend(run) == "reached train.max_epochs=2"
    assert extend(run, "train.max_epochs=3", "train.patience=50") == "reached train.max_epochs=3"
    assert (run.config().train.max_epochs, run.config().train.patience) == (3, 50)
    assert extend(run, "train.max_steps=1") == "reached train.max_steps=1"


def test_a_schedule_that_depends_on_the_limit_follows_the_new_limit(made: Any) -> None:
    run = made("run", **{"train.max_steps": 4, "train.schedule": "linear", "train.log_every": 1})
    extend(run, "train.max_steps=8")
    rates = [line["learning_rate"] for line in run.metrics() if line["kind"] == "train"]
    assert rates[3:] == pytest.approx([0, 1e-3 * 3 / 8, 1e-3 * 2 / 8, 1e-3 / 8, 0])


@pytest.mark.parametrize(
    "option", ["train.learning_rate=1", "model.width=16", "data.train=x", "train.maxsteps=9"]
)
def test_every_other_option_is_refused(made: Any, option: str) -> None:
    run = made("run", **{"train.max_steps": 2})
    before = run.config_file.read_bytes()
    with pytest.raises(SeqloomError, match="cannot be changed when a run is resumed"):
        extend(run, "train.max_steps=4", option)
    with pytest.raises(SeqloomError, match=r"train\.max_steps"):
        extend(run, "train.max_steps=-4")
    assert run.config_file.read_bytes() == before


def test_a_fitted_model_has_no_limits(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b c\nb c\n" * 20)
    run = create_run(tmp_path / "run", tmp_path / "text.txt", {"model.name": "ngram", "model.order": 2})
    with pytest.raises(SeqloomError, match="no training limits to change"):
        extend(run, "train.max_steps=4")
