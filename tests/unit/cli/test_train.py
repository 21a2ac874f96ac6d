"""`seqloom train`: suggested next commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import Command
from support.configs import TINY_TRANSFORMER, flags


@pytest.mark.parametrize(
    "model, data, shows, measures",
    [
        ("lm", "text.txt", 'generate {} "A man"', "score {} test.txt"),
        ("mlm", "text.txt", 'fill {} "A man is [MASK] a guitar."', "score {} test.txt"),
        ("lm", "pairs.tsv", "translate {} FILE", "evaluate {} test.tsv"),
    ],
)
def test_the_next_command_fits_the_model(
    runs: Path, command: Command, tmp_path: Path, model: str, data: str, shows: str, measures: str
) -> None:
    options = flags({**TINY_TRANSFORMER, "text.vocab_size": 60, "train.max_steps": 1})
    out = tmp_path / "run"
    done = command("train", runs / data, "--model", model, "--out", out, *options)
    assert done.code == 0, done.err
    commands = [f"  seqloom {line.format(out)}" for line in (shows, measures)]
    assert done.out.splitlines() == [f"trained: {out}", *commands]


@pytest.mark.parametrize("name", ["clips.tsv", "missing.tsv"])
def test_data_that_cannot_be_used_is_an_error_before_anything_is_written(
    command: Command, tmp_path: Path, name: str
) -> None:
    (tmp_path / "clips.tsv").write_text("a.wav\tone\nb.wav\ttwo\n")
    done = command("train", tmp_path / name, "--model", "prefix-lm", "--out", tmp_path / "run")
    assert done.code == 2
    assert {"clips.tsv": "reads text", "missing.tsv": "Cannot read the data file"}[name] in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["clips.tsv"]
