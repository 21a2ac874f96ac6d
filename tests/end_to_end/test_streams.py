"""Shards, mixtures and streams: the run of the one file, and after a stop the bytes of the run without one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.run import train as pipeline
from seqloom.run.config import compose
from seqloom.run.directory import Run
from support.configs import TINY_TRANSFORMER, WORDS

STEPS = 14
SETTINGS: dict[str, Any] = {
    **TINY_TRANSFORMER,
    **WORDS,
    "train.max_steps": STEPS,
    "train.batch_tokens": 60,
    "train.checkpoint_every": 6,
    "data.shuffle_buffer": 25,
}
STREAM = {"data.stream": True}
WAYS = {
    "stream": STREAM,
    "mixture": {"data.weights": [1, 3]},
    "stream of a mixture": {**STREAM, "data.temperature": 5.0},
    "stream of texts with gaps": {**STREAM, "data.target_column": "none", "data.noise.kind": "infill"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five shards of two corpora."""
    for number in range(5):
        corpus = tmp_path / ("large" if number < 4 else "small")
        corpus.mkdir(exist_ok=True)
        rows = [f"{i % 7} {i % 5} {number}\t{i % 7}" for i in range(number, number + 20)]
        (corpus / f"{number}.tsv").write_text("".join(f"{row}\n" for row in rows))
    return tmp_path


def new_run(folder: Path, name: str, settings: dict[str, Any]) -> Run:
    corpora = {"data.train": [str(folder / "large" / "*.tsv"), str(folder / "small")]}
    return pipeline.create(compose(values={**SETTINGS, **corpora, **settings}), folder / name, quiet=True)


@contextmanager
def stopping(after: int) -> Iterator[Callable[[], bool]]:
    """What says after so many steps that the run has to end."""
    asked = count(1)
    yield lambda: next(asked) == after


def end(run: Run) -> list[bytes]:
    last = run.checkpoints().folder / f"step-{STEPS}"
    return [(last / name).read_bytes() for name in ("model.safetensors", "training.safetensors")]


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_was_stopped_ends_with_the_same_bytes(
    way: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = new_run(folder, "straight", WAYS[way])
    pipeline.continue_run(straight, quiet=True)
    stopped = new_run(folder, "stopped", WAYS[way])
    for steps in (1, 2, 5):  # one after the other: in windows, and where they meet
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "stop_on_signals", lambda steps=steps: stopping(steps))
            assert not pipeline.continue_run(stopped, quiet=True).finished
    assert pipeline.continue_run(stopped, quiet=True).finished
    assert end(stopped) == end(straight)


def test_shards_are_the_run_of_the_one_file(folder: Path) -> None:
    whole = "".join(file.read_text() for file in sorted(folder.glob("*/*.tsv")))
    (folder / "whole.tsv").write_text(whole)
    ends = []
    for name, train in (("shards", [str(folder / "**" / "?.tsv")]), ("one", [str(folder / "whole.tsv")])):
        run = new_run(folder, name, {"data.train": train, "data.valid_share": 0.0})
        pipeline.continue_run(run, quiet=True)
        ends.append(end(run))
    assert ends[0] == ends[1]


def test_a_stream_of_parquet_is_that_of_tables(folder: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    for file in folder.glob("large/*.tsv"):
        rows = [line.split("\t") for line in file.read_text().splitlines()]
        sides = {name: [row[place] for row in rows] for place, name in enumerate(("source", "target"))}
        parquet.write_table(arrow.table(sides), file.with_suffix(".parquet"), row_group_size=7)
    ends = []
    for form in ("tsv", "parquet"):
        run = new_run(folder, form, {**STREAM, "data.train": str(folder / "large" / f"*.{form}")})
        pipeline.continue_run(run, quiet=True)
        ends.append(end(run))
    assert ends[0] == ends[1]


def test_a_stream_ends_after_its_epochs(folder: Path) -> None:
    run = new_run(folder, "run", {**STREAM, "train.max_steps": None, "train.max_epochs": 2})
    state = pipeline.continue_run(run, quiet=True)
    assert state.finished == "reached train.max_epochs=2"
    assert (state.epoch, state.batch) == (1, 100)
    assert json.loads(run.data_file.read_text())["pairs"] == {
        str(file): 20 for file in sorted(folder.glob("*/*.tsv"))
    }


@pytest.mark.parametrize("change", ["written anew", "removed", "added"])
def test_a_shard_that_changed_is_named(folder: Path, change: str) -> None:
    run = new_run(folder, "run", STREAM)
    file = folder / "large" / ("9.tsv" if change == "added" else "1.tsv")
    file.unlink() if change == "removed" else file.write_text("1\t1\n")
    with pytest.raises(SeqloomError, match=rf"{file.name} has changed since the run"):
        pipeline.continue_run(run, quiet=True)


@pytest.mark.parametrize(
    ("settings", "fragment"),
    [
        ({"data.train": ["large/*.csv"]}, r"No file matches large/\*\.csv"),
        ({"data.weights": [1]}, "data.weights has 1 entries, but data.train has 2"),
        ({"data.weights": [1, 0]}, "greater than 0"),
        (
            {"data.weights": [1, 1], "data.temperature": 2},
            "data.weights and data.temperature cannot be combined",
        ),
        ({"data.temperature": 0}, "greater than 0"),
        ({**STREAM, "data.max_length": 1}, "lines were dropped. Most frequent reason: source longer"),
        ({"data.train": ["large", "large/1.tsv"], "data.weights": [1, 1]}, r"1\.tsv is in 2 entries"),
        ({"data.train": ["large", "bad.tsv"], "data.weights": [1, 1]}, r"bad\.tsv has no pairs"),
        (
            {"data.train": [], "data.source": "1.txt", "data.target": "1.txt", "data.temperature": 2}
            | {"data.valid": "bad.tsv", "data.max_length": 1},
            r"1\.txt has no pairs",
        ),
    ],
)
def test_what_cannot_be_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], fragment: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "bad.tsv").write_text("1\t\n2\t2\n" if "data.source" in settings else "1\t\n")
    (folder / "1.txt").write_text("1 2 3\n" * 9)
    with pytest.raises(SeqloomError, match=fragment):
        new_run(folder, "run", settings)
    assert not (folder / "run").exists()


@pytest.mark.parametrize("settings", [STREAM, {"data.weights": [1]}, {"data.temperature": 2.0}])
def test_a_model_that_counts_takes_every_pair_once(settings: dict[str, Any]) -> None:
    with pytest.raises(SeqloomError, match=r"ngram .* cannot be a stream or a mixture"):
        compose(values={"model.name": "ngram", "data.train": "pairs.tsv", **settings})
