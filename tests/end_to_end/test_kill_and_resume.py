"""A run that is killed or stopped at any moment and resumed ends with the files of the one that was not."""

from __future__ import annotations

import json
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.commands import Command, start_process
from support.configs import TINY_TRANSFORMER, learner_flags

LAST = 160

SETTINGS = {
    **TINY_TRANSFORMER,
    "model.dropout": 0.1,  # so that the random generator's state matters
    "train.batch_tokens": 300,
    "train.ema": 0.9,
    "train.max_steps": LAST,
    "train.checkpoint_every": 40,
    "train.log_every": 10,
}


@pytest.fixture(scope="module")
def arguments(data: Path) -> list[object]:
    return ["train", data / "small.tsv", *learner_flags(SETTINGS)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, process: Command, arguments: list[object]) -> Path:
    out: Path = tmp_path_factory.mktemp("undisturbed") / "run"
    done = process(*arguments, "--out", out)
    assert done.code == 0, done.err
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


TIMED = {"seconds", "tokens_per_second", "memory_mb"}


def measured(run: Path) -> list[dict[str, Any]]:
    """Every report without what depends on time and memory."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{name: value for name, value in line.items() if name not in TIMED} for line in lines]


def wait_for(file: Path, content: str, begun: subprocess.Popen[str]) -> None:
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


@pytest.mark.slow
def test_killed_and_resumed_three_times(
    tmp_path: Path, process: Command, arguments: list[object], undisturbed: Path
) -> None:
    run = tmp_path / "run"
    command = [*arguments, "--out", run]
    for moment in MOMENTS:
        with start_process(*command) as begun:
            wait_for(*moment(run), begun)
            begun.kill()
        assert begun.returncode == -signal.SIGKILL
        assert not (run / "checkpoints" / f"step-{LAST}").exists()
        command = ["resume", run]
    resumed = process("resume", run)
    assert resumed.code == 0, resumed.err
    assert_same_end(run, undisturbed)


def wait_at_random(run: Path, begun: subprocess.Popen[str], draw: random.Random) -> None:
    """Returns while the process starts, or so many reports and milliseconds after; or when it has ended."""
    if draw.random() < 0.2:
        time.sleep(draw.uniform(0, 5))
        return
    file, reports = run / "metrics.jsonl", draw.randrange(1, 7)
    before = file.read_text().count("\n") if file.exists() else 0
    while begun.poll() is None and not (file.exists() and file.read_text().count("\n") >= before + reports):
        time.sleep(0.002)
    time.sleep(draw.uniform(0, 0.1))


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_random_moments(
    kills: int, tmp_path: Path, process: Command, arguments: list[object], undisturbed: Path
) -> None:
    """Again and again, while it starts, trains, validates or saves; a run that got to its end begins anew."""
    run, draw, done = tmp_path / "run", random.Random(kills), 0
    while done < kills:
        with start_process(*(["resume", run] if run.exists() else [*arguments, "--out", run])) as begun:
            wait_at_random(run, begun, draw)
            begun.kill()
            _, said = begun.communicate()
        assert begun.returncode in (0, -signal.SIGKILL), said
        done += begun.returncode == -signal.SIGKILL
        if begun.returncode == 0:
            assert_same_end(run, undisturbed)
            shutil.rmtree(run)
    ended = process(*(["resume", run] if run.exists() else [*arguments, "--out", run]))
    assert ended.code == 0, ended.err
    assert_same_end(run, undisturbed)


def test_a_disk_that_refuses_the_checkpoints(
    tmp_path: Path, process: Command, arguments: list[object], undisturbed: Path
) -> None:
    """The system lets the process write no large file: as when the disk is full, but without one."""
    run = tmp_path / "run"
    smallest = (undisturbed / "checkpoints" / f"step-{LAST}" / "model.safetensors").stat().st_size
    with start_process(*arguments, "--out", run) as begun:
        wait_for(run / "checkpoints" / "step-40" / "state.json", "", begun)
        resource.prlimit(begun.pid, resource.RLIMIT_FSIZE, (smallest // 2, smallest // 2))
        _, said = begun.communicate(timeout=200)
    assert begun.returncode == 2, said
    assert "Traceback" not in said
    assert "The checkpoint of step 120 cannot be written: File too large. Training continues;" in said
    assert f"error: The checkpoint of step {LAST} cannot be written: File too large." in said
    kept = sorted((run / "checkpoints").glob("step-*"))
    assert kept and f"last checkpoint: step {kept[-1].name.removeprefix('step-')};" in said
    resumed = process("resume", run)
    assert resumed.code == 0, resumed.err
    assert_same_end(run, undisturbed)


@pytest.mark.parametrize("sent", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_asked_to_stop_it_saves_says_how_to_go_on_and_goes_on(
    sent: signal.Signals,
    tmp_path: Path,
    process: Command,
    arguments: list[object],
    undisturbed: Path,
) -> None:
    run = tmp_path / "run"
    with start_process(*arguments, "--out", run) as begun:
        wait_for(run / "metrics.jsonl", '"step": 50', begun)
        begun.send_signal(sent)
        _, said = begun.communicate(timeout=30)
    assert begun.returncode == 0, said
    assert "Traceback" not in said
    assert f"{sent.name} received" in said
    assert said.splitlines()[-1].endswith(f"seqloom resume {run}")
    steps = sorted(int(folder.name.removeprefix("step-")) for folder in (run / "checkpoints").glob("step-*"))
    assert 50 <= steps[-1] < LAST
    assert f"stopped at step {steps[-1]}" in said
    resumed = process("resume", run)
    assert resumed.code == 0, resumed.err
    assert_same_end(run, undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "survival.md").read_text(encoding="utf-8")
    command = tmp_path / "seqloom"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m seqloom "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    done = subprocess.run(
        ["sh", "-ec", page.split("```bash\n")[1].split("```")[0]],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "differ" not in done.stdout
