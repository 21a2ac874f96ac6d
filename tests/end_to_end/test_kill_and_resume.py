"""A run that is killed or stopped at any moment and resumed ends with the files of the one that was not."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
LAST = 160

SETTINGS = {
    "model.width": 16,
    "model.ffn": 32,
    "model.heads": 2,
    "model.layers": 1,
    "model.dropout": 0.1,  # so that the random generator's state matters
    "train.batch_tokens": 300,
    "train.ema": 0.9,
    "train.max_steps": LAST,
    "train.checkpoint_every": 40,
    "train.log_every": 10,
}


@pytest.fixture(scope="module")
def arguments(data: Path, options: Command) -> list[object]:
    return ["train", data / "small.tsv", *options(SETTINGS)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, process: Command, arguments: list[object]) -> Path:
    out: Path = tmp_path_factory.mktemp("undisturbed") / "run"
    done = process(*arguments, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def assert_same_end(run: Path, expected: Path) -> None:
    """The last checkpoint byte by byte, which one is the best, and what was measured on the way."""
    folder, twin = (one / "checkpoints" / f"step-{LAST}" for one in (run, expected))
    for name in ("model.safetensors", "training.safetensors"):
        assert (folder / name).read_bytes() == (twin / name).read_bytes(), name
    for one in (run, expected):
        assert not list(one.rglob(".*.tmp")), "a temporary file was left behind"
    links = [(one / "checkpoints" / "best").readlink() for one in (run, expected)]
    assert links[0] == links[1]
    assert measured(run) == measured(expected)


def measured(run: Path) -> list[tuple[str, int, float]]:
    """(kind, step, loss) of every line; that of training is a mean since the last report, so left out."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [(line["kind"], line["step"], line["loss"] if line["kind"] == "valid" else 0) for line in lines]


def wait_for(file: Path, begun: subprocess.Popen[str], content: str = "") -> None:
    """Returns as soon as the file is there and holds the text."""
    until = time.monotonic() + 200
    while not (file.exists() and content in file.read_text()):
        assert begun.poll() is None, f"it ended too early: {begun.communicate()[1]}"
        assert time.monotonic() < until
        time.sleep(0.002)


def before_the_first_checkpoint(run: Path) -> tuple[Path, str]:
    return run / "config.yaml", ""


def between_two_checkpoints(run: Path) -> tuple[Path, str]:
    return run / "metrics.jsonl", '"step": 60'


def right_after_a_checkpoint(run: Path) -> tuple[Path, str]:
    return run / "checkpoints" / "step-80" / "state.json", ""


MOMENTS = (before_the_first_checkpoint, between_two_checkpoints, right_after_a_checkpoint)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_and_resumed(
    moment: Callable[[Path], tuple[Path, str]],
    tmp_path: Path,
    start: Command,
    process: Command,
    arguments: list[object],
    undisturbed: Path,
) -> None:
    run = tmp_path / "run"
    with start(*arguments, "--out", run) as begun:
        file, content = moment(run)
        wait_for(file, begun, content)
        begun.kill()
    assert begun.returncode == -signal.SIGKILL
    assert not (run / "checkpoints" / f"step-{LAST}").exists()
    resumed = process("resume", run)
    assert resumed.returncode == 0, resumed.stderr
    assert_same_end(run, undisturbed)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_saves_says_how_to_go_on_and_goes_on(
    sent: signal.Signals,
    tmp_path: Path,
    start: Command,
    process: Command,
    arguments: list[object],
    undisturbed: Path,
) -> None:
    run = tmp_path / "run"
    with start(*arguments, "--out", run) as begun:
        wait_for(run / "metrics.jsonl", begun, '"step": 50')
        begun.send_signal(sent)
        _, said = begun.communicate(timeout=200)
    assert begun.returncode == 0, said
    assert "Traceback" not in said
    assert f"{sent.name} received" in said
    assert said.splitlines()[-1].endswith(f"seqloom resume {run}")
    steps = sorted(int(folder.name.removeprefix("step-")) for folder in (run / "checkpoints").glob("step-*"))
    assert 50 <= steps[-1] < LAST
    assert f"stopped at step {steps[-1]}" in said
    resumed = process("resume", run)
    assert resumed.returncode == 0, resumed.stderr
    assert_same_end(run, undisturbed)
