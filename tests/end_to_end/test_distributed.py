"""Training, translating and failing in two processes, compared with one."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from seqloom.run.directory import Run
from support.commands import run_process, start_process
from support.configs import TINY_TRANSFORMER, flags

STEPS = 12
OPTIONS = {
    **TINY_TRANSFORMER,
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
    draw, folder = random.Random(1), tmp_path_factory.mktemp("distributed")
    words = [[str(draw.randrange(10)) for _ in range(draw.randrange(1, 9))] for _ in range(60)]
    (folder / "pairs.tsv").write_text("".join(f"{' '.join(w)}\t{' '.join(w[::-1])}\n" for w in words))
    return folder


def _command(data: Path, name: str, processes: int, **more: object) -> list[str]:
    chosen = {**OPTIONS, **{key.replace("_", ".", 1): value for key, value in more.items()}}
    start = ["train", str(data / "pairs.tsv"), "--out", str(data / name)]
    return [*start, "--processes", str(processes), *flags(chosen)]


def _run(command: list[str]) -> None:
    done = run_process(*command)
    assert done.code == 0, done.err


def _weights(folder: Path, step: int = STEPS) -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoints" / f"step-{step}" / "model.safetensors")


def _same_bytes(one: Path, other: Path) -> bool:
    names = ("model.safetensors", "training.safetensors")
    files = [[f / "checkpoints" / f"step-{STEPS}" / name for name in names] for f in (one, other)]
    return [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


@pytest.fixture(scope="module")
def one(data: Path) -> Path:
    """A run trained by one process."""
    _run(_command(data, "one", 1, model_dropout=0.0))
    return data / "one"


@pytest.mark.timeout(280)
@pytest.mark.parametrize("shard", [False, True], ids=["ddp", "fsdp"])
def test_two_processes_make_the_updates_of_one(data: Path, one: Path, shard: bool) -> None:
    two = data / f"two-{shard}"
    _run(_command(data, two.name, 2, model_dropout=0.0, train_shard=shard))
    alone, together, earlier = _weights(one), _weights(two), _weights(one, 4)
    # On average: where the true gradient is 0, as for the biases of keys, Adam's steps are rounding errors.
    moved, apart = (
        sum(float((alone[n] - other[n]).abs().sum()) for n in alone) for other in (earlier, together)
    )
    assert apart < 0.01 * moved
    moments = [load_file(run / "checkpoints" / f"step-{STEPS}" / "training.safetensors") for run in (one, two)]
    assert {n: t.shape for n, t in moments[0].items()}.items() <= {
        n: t.shape for n, t in moments[1].items()
    }.items()
    logs = [(run / "metrics.jsonl").read_text().count('"train"') for run in (one, two)]
    assert logs == [STEPS // 4] * 2  # only the main process writes
    measured = [
        [line for line in Run(run).metrics() if line["kind"] in ("valid", "average")] for run in (one, two)
    ]
    assert [line["kind"] for line in measured[1]] == [*["valid"] * 3, "average"]
    for expected, found in zip(*measured, strict=True):  # each process validated its part of the lines
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-3)
        assert found["cer"] == pytest.approx(expected["cer"], rel=0.1)


@pytest.mark.timeout(280)
def test_two_processes_drop_the_words_that_one_drops(data: Path) -> None:
    options = {"model_dropout": 0.0, "train_word_dropout": 0.2}
    for processes in (1, 2):
        _run(_command(data, f"words-{processes}", processes, **options))
    alone, together = _weights(data / "words-1"), _weights(data / "words-2")
    earlier = _weights(data / "words-1", 4)
    moved, apart = (
        sum(float((alone[n] - other[n]).abs().sum()) for n in alone) for other in (earlier, together)
    )
    assert apart < 0.01 * moved


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shard", [False, True], ids=["ddp", "fsdp"])
def test_two_processes_train_with_two_passes(data: Path, shard: bool) -> None:
    _run(_command(data, f"rdrop-{shard}", 2, model_dropout=0.3, train_rdrop=5.0, train_shard=shard))
    losses = [row["loss"] for row in Run(data / f"rdrop-{shard}").metrics() if row["kind"] == "train"]
    assert losses[-1] < losses[0]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shard", [False, True], ids=["ddp", "fsdp"])
def test_after_a_process_is_killed_training_ends_with_the_same_bytes(data: Path, shard: bool) -> None:
    calm, killed = data / f"calm-{shard}", data / f"killed-{shard}"
    _run(_command(data, calm.name, 2, train_shard=shard))
    command = _command(data, killed.name, 2, train_shard=shard)
    disturbed = start_process(*command)
    checkpoint = killed / "checkpoints" / "step-4"
    while not checkpoint.is_dir():
        assert disturbed.poll() is None, disturbed.communicate()
        time.sleep(0.05)
    workers = _descendants(disturbed.pid)
    os.kill(workers[-1], signal.SIGKILL)
    _, errors = disturbed.communicate(timeout=400)
    assert disturbed.returncode == 0, errors
    assert _same_bytes(calm, killed)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_process_resumes_a_sharded_run_of_two(data: Path) -> None:
    _run(_command(data, "sharded", 2, model_dropout=0.0, train_shard=True))
    _run(_command(data, "whole", 1, model_dropout=0.0, train_shard=True))
    folder = data / "sharded" / "checkpoints"
    shutil.rmtree(folder / f"step-{STEPS}")
    _run(["resume", str(data / "sharded")])
    ends = _weights(data / "sharded"), _weights(data / "whole")
    assert all(torch.allclose(ends[0][n], ends[1][n], atol=1e-3) for n in ends[0])


def _descendants(pid: int) -> list[int]:
    """Return the ids of all descendants of a process, the youngest last."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    children = [int(word) for word in listed.stdout.split()]
    return children + [below for child in children for below in _descendants(child)]


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    "options", [["--engine", "torch"], ["--sample", "--seed", "3"]], ids=["beam", "samples"]
)
def test_two_processes_translate_like_one(data: Path, one: Path, options: list[str]) -> None:
    lines = [line.split("\t")[0] for line in (data / "pairs.tsv").read_text().splitlines()]
    given = "".join(f"{line}\n" for line in [*lines, "", "3"])
    done = [run_process("translate", one, "-", *options, "--processes", n, given=given) for n in (1, 2)]
    assert [each.code for each in done] == [0, 0], done[1].err
    assert done[0].out == done[1].out
    assert done[0].out.count("\n") == len(lines) + 2


@pytest.mark.timeout(280)
def test_an_error_in_several_processes_has_no_traceback(
    data: Path, one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = run_process("evaluate", one, data / "none.tsv", "--processes", 2)
    assert done.code == 2
    assert "none.tsv does not exist" in done.err
    assert "Traceback" not in done.err
    assert not list(tmp_path.iterdir())  # no temporary files are left
