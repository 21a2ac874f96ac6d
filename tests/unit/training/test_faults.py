"""Fault injection: each file operation of a run fails, or kills the process; no saved data is lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from seqloom.data.corpus import Corpus
from seqloom.errors import SeqloomError
from seqloom.files import clean_up_leftovers
from seqloom.run.config import compose
from seqloom.run.train import create
from seqloom.training.checkpoint import MODEL, STATE, TRAINING, Checkpoints, check_sums
from seqloom.training.run_log import RunLog, read_metrics
from seqloom.training.trainer import Validation

Make = Callable[..., Any]  # builds a Trainer of the toy model
OPERATIONS = ("write", "fsync", "replace", "rename", "mkdir", "symlink", "unlink", "rmdir")
OPTIONS = {"max_steps": 7, "checkpoint_every": 2, "log_every": 2, "keep": 2, "average": 2, "ema": 0.9}


class Death(BaseException):
    """The process was killed: not even cleanup code runs."""


@dataclass
class Disk:
    """Counts the operations that change files; the k-th fails, or kills the process.

    Safetensors would bypass it, which is one reason why seqloom.files writes checkpoints.
    """

    fails: int = 0  # number of the operation that fails; 0 = none
    dies: int = 0  # number of the operation that kills the process; 0 = none
    done: int = 0
    refuses: bool = False  # whether the rest of a partial write fails
    opened: dict[int, str] = field(default_factory=dict)
    synced: dict[str, int] = field(default_factory=dict)  # bytes of a changed file that survive a power cut

    def operation(self, name: str, *arguments: Any) -> bool:
        """Return whether to perform the operation; raise if it is the one that fails."""
        if self.dies and self.done >= self.dies:
            raise Death
        if name == "write" and arguments[0] not in self.opened:
            return True  # the console
        self.done += 1
        if self.done == self.dies:
            if name == "write":
                REAL["write"](arguments[0], arguments[1][: len(arguments[1]) // 2])
            self.cut_power()
            raise Death
        if name == "write" and self.refuses:
            self.refuses = False
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.done == self.fails:
            if name == "write":
                self.refuses = True
                return True
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return True

    def cut_power(self) -> None:
        """Remove half of the data that was not forced to the disk."""
        for path, safe in self.synced.items():
            if os.path.isfile(path):
                os.truncate(path, (safe + os.path.getsize(path)) // 2)

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            self.operation("open", path)
        handle: int = REAL["open"](path, flags, mode, dir_fd=dir_fd)
        self.opened[handle] = os.path.abspath(path)
        return handle

    def close(self, handle: int) -> None:
        self.opened.pop(handle, None)
        REAL["close"](handle)

    def write(self, handle: int, content: Any) -> int:
        self.operation("write", handle, content)
        if handle in self.opened:
            self.synced.setdefault(self.opened[handle], os.fstat(handle).st_size)
        portion = content[: max(1, len(content) // 2)] if self.refuses else content
        written: int = REAL["write"](handle, portion)
        return written

    def fsync(self, handle: int) -> None:
        self.operation("fsync")
        self.synced.pop(self.opened[handle], None)

    def moved(self, name: str) -> Callable[..., None]:
        def move(source: Any, target: Any, **options: Any) -> None:
            self.operation(name)
            REAL[name](source, target, **options)
            before, after = os.path.abspath(source), os.path.abspath(target)
            self.synced = {
                after + path[len(before) :] if path.startswith(before) else path: size
                for path, size in self.synced.items()
            }

        return move

    def plain(self, name: str) -> Callable[..., Any]:
        def act(*arguments: Any, **options: Any) -> Any:
            self.operation(name)
            return REAL[name](*arguments, **options)

        return act


REAL: dict[str, Any] = {name: getattr(os, name) for name in (*OPERATIONS, "open", "close")}


@contextmanager
def using(disk: Disk) -> Iterator[None]:
    """Redirect all file operations to the disk."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("open", "close", "write", "fsync"):
            patch.setattr(os, name, getattr(disk, name))
        for name in ("replace", "rename"):
            patch.setattr(os, name, disk.moved(name))
        for name in ("mkdir", "symlink", "unlink", "rmdir"):
            patch.setattr(os, name, disk.plain(name))
        yield


@dataclass
class Acknowledged:
    """Checkpoints and metrics that were reported as saved."""

    steps: list[int] = field(default_factory=list)
    lines: list[tuple[str, int]] = field(default_factory=list)


def begin(make: Make, folder: Path, saved: Acknowledged | None = None, **options: Any) -> Any:
    """Start or resume a run in the folder as the command does; return its final state."""
    saved = saved or Acknowledged()
    clean_up_leftovers(folder)
    trainer = make(folder.name, **{**OPTIONS, **options})
    trainer.checkpoints.recover()
    newest = max(trainer.checkpoints.steps(), default=0)
    with RunLog(folder, step=newest, averaged=trainer.checkpoints.has_average(), progress=False) as log:
        trainer.log = log
        trainer.validate = lambda: _measured(trainer.model)
        save, record = trainer.checkpoints.save, log.record

        def saving(weights: Any, training: Any, state: Any) -> None:
            save(weights, training, state)
            saved.steps.append(state.step)

        def recording(kind: str, step: int, values: Any) -> None:
            record(kind, step, values)
            saved.lines.append((kind, step))

        trainer.checkpoints.save, log.record = saving, recording
        return trainer.run()


def resume(make: Make, folder: Path) -> None:
    with using(Disk()):  # faster than a real disk
        begin(make, folder)


def _measured(model: Any) -> Validation:
    """Return a goal that depends on the weights only: the second checkpoint is the best, then the average."""
    goal = float(model.output.bias.detach().double().sum() * 13e3 % 1)
    return Validation({"loss": -goal}, goal)


TIMED = ("seconds", "reported", "tokens_per_second", "memory_mb")


def result(folder: Path) -> dict[str, Any]:
    """Return everything that must not depend on interruptions of the run."""
    checkpoints = Checkpoints(folder / "checkpoints")
    newest = checkpoints.path(checkpoints.steps()[-1])
    state = json.loads((newest / STATE).read_text())
    lines = read_metrics(folder / "metrics.jsonl")
    return {
        "weights": (newest / MODEL).read_bytes(),
        "optimiser": (newest / TRAINING).read_bytes(),
        "average": (folder / "checkpoints" / "average" / MODEL).read_bytes(),
        "state": {name: value for name, value in state.items() if name not in ("seal", *TIMED)},
        "best": os.readlink(folder / "checkpoints" / "best"),
        "kept": checkpoints.steps(),
        "lines": [(line["kind"], line["step"], line["loss"]) for line in lines if line["kind"] != "train"],
        "reports": [
            {name: value for name, value in line.items() if name not in TIMED}
            for line in lines
            if line["kind"] == "train"
        ],
        "left behind": sorted(str(path.relative_to(folder)) for path in folder.rglob(".*")),
    }


def check_acknowledged(folder: Path, saved: Acknowledged) -> None:
    """Check that nothing reported as saved is lost, and that the best weights can be loaded."""
    clean_up_leftovers(folder / "checkpoints")  # what a resumed run does first
    if saved.steps:
        check_sums(folder / "checkpoints" / f"step-{saved.steps[-1]}", (MODEL, TRAINING))
    best = folder / "checkpoints" / "best"
    if best.is_symlink():
        check_sums(best, [MODEL])
    lines = [(line["kind"], line["step"]) for line in read_metrics(folder / "metrics.jsonl")]
    assert lines[: len(saved.lines)] == saved.lines


@pytest.fixture
def undisturbed(make_trainer: Make, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "undisturbed").mkdir()
    begin(make_trainer, tmp_path / "undisturbed")
    expected = result(tmp_path / "undisturbed")
    assert expected["left behind"] == []
    assert [line[:2] for line in expected["lines"]] == [*(("valid", n) for n in (2, 4, 6, 7)), ("average", 7)]
    assert (expected["kept"], expected["best"]) == ([4, 6, 7], "average")
    return expected


def numbers(make: Make, folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the number of each operation of a run, with an empty folder for it."""
    disk = Disk()
    (folder / "counted").mkdir()
    with using(disk):
        begin(make, folder / "counted")
    assert disk.done > 100
    for number in range(1, disk.done + 1):
        run = folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
        yield number, run


def test_the_process_dies_at_every_operation(
    make_trainer: Make, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    for number, run in numbers(make_trainer, tmp_path):
        saved = Acknowledged()
        with using(Disk(dies=number)), pytest.raises(Death):
            begin(make_trainer, run, saved)
        check_acknowledged(run, saved)
        resume(make_trainer, run)
        assert result(run) == undisturbed, f"after a death at operation {number}"


def test_the_process_dies_again_at_every_operation_after_resuming(
    make_trainer: Make, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    died, run = tmp_path / "died", tmp_path / "run"
    died.mkdir()
    with using(Disk(dies=75)), pytest.raises(Death):
        begin(make_trainer, died)
    flip(died / "checkpoints" / f"step-{Checkpoints(died / 'checkpoints').steps()[-1]}" / MODEL)
    for number in range(1, 41):  # up to the next checkpoint; later operations are tested above
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(died, run, symlinks=True)
        with using(Disk(dies=number)), pytest.raises(Death):
            begin(make_trainer, run)
        assert (run / "checkpoints" / "best").exists()
        resume(make_trainer, run)
        shutil.rmtree(next((run / "checkpoints").glob("damaged-*")))
        assert result(run) == undisturbed, f"after a death at operation {number}"


def test_every_operation_fails_once(make_trainer: Make, tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    """Training continues, or ends with an error and can be resumed; the weights are the same."""
    survived = 0
    for number, run in numbers(make_trainer, tmp_path):
        saved = Acknowledged()
        try:
            with using(Disk(fails=number)):
                begin(make_trainer, run, saved)
            survived += 1
        except (SeqloomError, OSError):  # an OSError becomes an error message in run/train.py
            check_acknowledged(run, saved)
            resume(make_trainer, run)
        check_acknowledged(run, saved)
        clean_up_leftovers(run)
        found = result(run)
        for name in ("weights", "optimiser", "reports", "left behind"):
            assert found[name] == undisturbed[name], f"{name} after a failure of operation {number}"
    assert survived > 50


def flip(file: Path, bit: int = 1000) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    file.write_bytes(content)


@pytest.fixture
def new_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that creates a run directory of that name; the data is prepared once."""
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{n} {n}\t{n}\n" for n in range(20)), encoding="utf-8")
    config = compose(
        None,
        {"data.train": str(pairs), "text.tokenizer": "word", "text.byte_fallback": False, "model.size": "tiny"},
    )
    prepared = Corpus(config.data, config.text).prepare()
    monkeypatch.setattr(Corpus, "prepare", lambda *_: prepared)
    return lambda name: create(config, tmp_path / name, quiet=True).folder


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_directory_is_created_atomically(new_run: Callable[[str], Path], tmp_path: Path) -> None:
    disk = Disk()
    with using(disk):
        expected = _content(new_run("whole"))
    assert disk.done > 20
    assert expected.keys() == {
        *("config.yaml", "data.json", "data-report.json"),
        *("tokenizer/joint.json", "tokenizer/joint.model"),
    }
    for number in range(1, disk.done + 1):
        with using(Disk(fails=number)), suppress(SeqloomError):  # a failing cleanup raises no error
            new_run("failed")
        with using(Disk(dies=number)), pytest.raises(Death):
            new_run("died")
        for name in ("failed", "died"):
            if not (tmp_path / name).exists():
                new_run(name)
            assert _content(tmp_path / name) == expected, f"after operation {number}"
            shutil.rmtree(tmp_path / name)
        # After the rename that creates the run, only a harmless lock file that nobody holds may be left.
        assert number >= disk.done - 1 or not list(tmp_path.glob(".*"))
