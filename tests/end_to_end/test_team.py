"""Two processes train one model: the same gradients, the same bytes after a resume, and after a death."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from seqloom.data.batching import collate_ids
from seqloom.run import Run
from seqloom.team import Team
from seqloom.types import PAD

STEPS = 12
OPTIONS = {
    "model.size": "tiny",
    "model.width": 16,
    "model.heads": 2,
    "model.layers": 1,
    "model.ffn": 16,
    "text.tokenizer": "word",
    "train.max_steps": STEPS,
    "train.checkpoint_every": 4,
    "train.batch_tokens": 60,
    "train.accumulate": 2,
    "train.log_every": 4,
    "train.metrics": "cer",
    "train.validate_lines": 5,
    "train.average": 2,
    "train.threads": 1,
    "train.warmup": 2,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw, folder = random.Random(1), tmp_path_factory.mktemp("team")
    words = [[str(draw.randrange(10)) for _ in range(draw.randrange(1, 9))] for _ in range(60)]
    (folder / "pairs.tsv").write_text("".join(f"{' '.join(w)}\t{' '.join(w[::-1])}\n" for w in words))
    return folder


def _command(data: Path, name: str, processes: int, **more: object) -> list[str]:
    chosen = {**OPTIONS, **{key.replace("_", ".", 1): value for key, value in more.items()}}
    options = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
    start = [sys.executable, "-m", "seqloom", "train", str(data / "pairs.tsv"), "--out", str(data / name)]
    return [*start, "--processes", str(processes), *options]


def _run(command: list[str]) -> str:
    done = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        _, told = done.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(done.pid, signal.SIGKILL)  # the workers, too
        raise
    assert done.returncode == 0, told
    return told


def _weights(folder: Path, step: int = STEPS) -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoints" / f"step-{step}" / "model.safetensors")


def _same_bytes(one: Path, other: Path) -> bool:
    names = ("model.safetensors", "training.safetensors")
    files = [[f / "checkpoints" / f"step-{STEPS}" / name for name in names] for f in (one, other)]
    return [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


@pytest.fixture(scope="module")
def one(data: Path) -> Path:
    """What one process makes of it."""
    _run(_command(data, "one", 1, model_dropout=0.0))
    return data / "one"


@pytest.mark.timeout(280)
@pytest.mark.parametrize("shard", [False, True], ids=["whole", "slices"])
def test_two_processes_make_the_updates_of_one(data: Path, one: Path, shard: bool) -> None:
    two = data / f"two-{shard}"
    _run(_command(data, two.name, 2, model_dropout=0.0, train_shard=shard))
    alone, together, earlier = _weights(one), _weights(two), _weights(one, 4)
    # On average: where the true gradient is 0, as of the keys' biases, Adam makes a step of its rounding.
    moved, apart = (
        sum(float((alone[n] - other[n]).abs().sum()) for n in alone) for other in (earlier, together)
    )
    assert apart < 0.01 * moved
    moments = [load_file(run / "checkpoints" / f"step-{STEPS}" / "training.safetensors") for run in (one, two)]
    assert {n: t.shape for n, t in moments[0].items()}.items() <= {
        n: t.shape for n, t in moments[1].items()
    }.items()
    logs = [(run / "metrics.jsonl").read_text().count('"train"') for run in (one, two)]
    assert logs == [STEPS // 4] * 2  # only one of the two writes
    measured = [
        [line for line in Run(run).metrics() if line["kind"] in ("valid", "average")] for run in (one, two)
    ]
    assert [line["kind"] for line in measured[1]] == [*["valid"] * 3, "average"]
    for expected, found in zip(*measured, strict=True):  # each process had its part of the lines
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-3)
        assert found["cer"] == pytest.approx(expected["cer"], rel=0.1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shard", [False, True], ids=["whole", "slices"])
def test_a_process_that_is_killed_comes_back_and_the_end_is_the_same(data: Path, shard: bool) -> None:
    calm, killed = data / f"calm-{shard}", data / f"killed-{shard}"
    _run(_command(data, calm.name, 2, train_shard=shard))
    command = _command(data, killed.name, 2, train_shard=shard)
    disturbed = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    checkpoint = killed / "checkpoints" / "step-4"
    while not checkpoint.is_dir():
        assert disturbed.poll() is None, disturbed.communicate()
        time.sleep(0.05)
    workers = _descendants(disturbed.pid)
    os.kill(workers[-1], signal.SIGKILL)
    _, told = disturbed.communicate(timeout=400)
    assert disturbed.returncode == 0, told
    assert _same_bytes(calm, killed)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_process_goes_on_with_what_two_held_in_slices(data: Path) -> None:
    _run(_command(data, "slices", 2, model_dropout=0.0, train_shard=True))
    _run(_command(data, "whole", 1, model_dropout=0.0, train_shard=True))
    folder = data / "slices" / "checkpoints"
    shutil.rmtree(folder / f"step-{STEPS}")
    _run([sys.executable, "-m", "seqloom", "resume", str(data / "slices")])
    ends = _weights(data / "slices"), _weights(data / "whole")
    assert all(torch.allclose(ends[0][n], ends[1][n], atol=1e-3) for n in ends[0])


def _descendants(pid: int) -> list[int]:
    """The process's children's children …, the youngest last."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    children = [int(word) for word in listed.stdout.split()]
    return children + [below for child in children for below in _descendants(child)]


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_the_shares_of_a_batch_are_the_batch(rows: int) -> None:
    targets = [list(range(4, 5 + i)) for i in range(rows)]
    batch = collate_ids([[4]] * rows, targets, range(rows))
    shares = [Team(rank, 2).share(rows, batch.rows) for rank in (0, 1)]
    assert sum(share.target_tokens for share in shares) == batch.target_tokens
    assert all(len(share.source) >= 1 for share in shares)
    found = sorted(
        tuple(row[row != PAD].tolist()) for share in shares for row in share.target_out if (row != PAD).any()
    )
    assert found == sorted((*target, 2) for target in targets)


def test_alone_nothing_is_shared() -> None:
    batch = collate_ids([[4], [5]], [[4], [5]], [0, 1])
    team = Team()
    assert team.share(2, batch.rows).source.tolist() == batch.source.tolist()
    assert team.most(1.0, 0.0) == [1.0, 0.0]
    assert team.told("word") == "word"


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    "options", [["--engine", "torch"], ["--sample", "--seed", "3"]], ids=["beam", "samples"]
)
def test_two_processes_translate_as_one_does(data: Path, one: Path, options: list[str]) -> None:
    lines = [line.split("\t")[0] for line in (data / "pairs.tsv").read_text().splitlines()]
    command = [sys.executable, "-m", "seqloom", "translate", str(one), "-", *options]
    answers = [
        subprocess.run(
            [*command, "--processes", str(n)],
            input=("\n".join([*lines, "", "3"]) + "\n").encode(),
            capture_output=True,
            check=True,
        ).stdout
        for n in (1, 2)
    ]
    assert answers[0] == answers[1]
    assert answers[0].count(b"\n") == len(lines) + 2


@pytest.mark.timeout(280)
def test_an_error_of_several_processes_is_told_without_a_traceback(
    data: Path, one: Path, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "seqloom",
        "evaluate",
        str(one),
        str(data / "none.tsv"),
        "--processes",
        "2",
    ]
    place = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [*command, "--processes", "2"], capture_output=True, text=True, check=False, env=place
    )
    assert done.returncode == 2
    assert "There is no file" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())  # nor is anything left in the folder for temporary files
