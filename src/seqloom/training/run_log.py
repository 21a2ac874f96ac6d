"""What a run tells: metrics.jsonl for machines, a progress bar or plain lines for people."""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from seqloom.files import write_atomically
from seqloom.progress import ProgressBar, percentage, stderr_console

_LARGEST = 1e100  # beyond any number that a run reports


class Log(Protocol):
    """Where the training loop reports to."""

    def progress(self, fraction: float, eta: float, values: dict[str, Any]) -> None: ...
    def record(self, kind: str, step: int, values: dict[str, Any]) -> None: ...
    def say(self, line: str) -> None: ...


class RunLog:
    """metrics.jsonl and log.txt in the run directory, and the console: Rich on a terminal, lines elsewhere."""

    def __init__(
        self,
        folder: Path,
        *,
        step: int = 0,
        averaged: bool = False,  # whether the mean of the last checkpoints is there, too
        tensorboard: bool = False,
        quiet: bool = False,
        progress: bool | None = None,  # shown unless `quiet`, if not given
    ) -> None:
        _keep_until(folder / "metrics.jsonl", step, averaged)
        self.metrics = Lines(folder / "metrics.jsonl")
        self.text = Lines(folder / "log.txt")
        self.quiet, self.shows_progress = quiet, not quiet if progress is None else progress
        self.board = _tensorboard(folder) if tensorboard else None
        self.bar = ProgressBar("training", total=1.0, describe=percentage, keep=True)

    def __enter__(self) -> Self:
        if self.shows_progress:
            self.bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.__exit__(kind, error, trace)
        if self.board:
            self.board.close()
        self.metrics.close()
        self.text.close()

    def progress(self, fraction: float, eta: float, values: dict[str, Any]) -> None:
        """Update the progress bar; cheap enough for every step."""
        if self.shows_progress:
            self.bar.update(fraction, seconds_left=eta, note=_short(values))

    def record(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """One line of metrics.jsonl, and of the console."""
        entry = {"kind": kind, "step": step, **{name: _finite(value) for name, value in values.items()}}
        self._write(self.metrics, json.dumps(entry))
        if self.board:
            for name, value in _scalars(kind, values):
                self.board.add_scalar(name, value, step)
        line = f"{kind} step {step:,}: {_short(values)}"
        self._write(self.text, f"{time.strftime('%H:%M:%S')} {line}")
        if kind != "train" or not self.bar.is_live:
            self._print(line)

    def say(self, line: str) -> None:
        """A sentence for the person."""
        self._write(self.text, f"{time.strftime('%H:%M:%S')} {line}")
        self._print(line)

    def _write(self, file: Lines, line: str) -> None:
        """Adds a line; a disk that does not take it is told of, but ends no run."""
        if (refusal := file.add(line)) is not None:
            self._print(f"{file.path} cannot be written: {refusal.strerror}; its lines are kept in memory")

    def _print(self, line: str) -> None:
        if self.quiet:
            return
        if self.bar.is_live:
            stderr_console().print(line)
        else:
            print(line, file=sys.stderr, flush=True)


class Lines:
    """A file that grows by lines, each forced to the disk; what the disk refuses goes with the next line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self._waiting = b""

    def add(self, line: str) -> OSError | None:
        """None when the line and all before it are on the disk, else what the system said."""
        self._waiting += line.encode(errors="replace") + b"\n"
        return self._write()

    def close(self) -> None:
        self._write()
        os.close(self._handle)

    def _write(self) -> OSError | None:
        try:
            while self._waiting:
                self._waiting = self._waiting[os.write(self._handle, self._waiting) :]
            os.fsync(self._handle)
        except OSError as error:
            return error
        return None


def _keep_until(file: Path, step: int, averaged: bool) -> None:
    """Drops the metrics of what a resumed run will do again, and a last line cut by a crash."""
    if not file.exists():
        return
    kept = [
        entry
        for entry in read_metrics(file)
        if entry["step"] <= step and (averaged or entry["kind"] != "average")
    ]
    write_atomically(file, "".join(json.dumps(entry) + "\n" for entry in kept))


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """The entries of metrics.jsonl; a line that a crash cut short is passed over."""
    entries = []
    text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if _is_report(entry):
            entries.append(entry)
    return entries


def _is_report(entry: Any) -> bool:
    """Whether it is as `record` writes it: a kind, a step, numbers by name, and gradient norms by layer."""
    if not isinstance(entry, dict) or (type(entry.get("kind")), type(entry.get("step"))) != (str, int):
        return False
    norms = entry.get("gradient_norms") or {}
    numbers = (value for name, value in entry.items() if name not in ("kind", "gradient_norms"))
    return isinstance(norms, dict) and all(map(_is_number, (*numbers, *norms.values())))


def _is_number(value: Any) -> bool:
    """None stands for a number that was not finite."""
    return value is None or (isinstance(value, int | float) and abs(value) < _LARGEST)


def clipping(entries: Sequence[dict[str, Any]]) -> dict[str, float] | None:
    """Share of a run's updates that were clipped, and to which part of their length; None if it is not told.

    A report speaks for the updates since the one before it: Σ n share / Σ n and Σ n share factor / Σ n share.
    """
    updates = clipped = kept = 0.0
    last = 0
    for entry in entries:
        if entry["kind"] != "train":
            continue
        number, last = entry["step"] - last, entry["step"]
        if entry.get("clipped") is not None and entry.get("clip_factor") is not None:
            updates += number
            clipped += number * entry["clipped"]
            kept += number * entry["clipped"] * entry["clip_factor"]
    if not updates:
        return None
    return {"share": clipped / updates, "factor": kept / clipped if clipped else 1.0}


def _tensorboard(folder: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"))


def _scalars(kind: str, values: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a report under the names that TensorBoard groups them by."""
    for name, value in values.items():
        if name == "gradient_norms":
            yield from ((f"gradient_norm/{layer}", norm) for layer, norm in value.items())
        elif isinstance(value, int | float):
            yield f"{kind}/{name}", value


def _short(values: dict[str, Any]) -> str:
    """The values that people watch, in a line."""
    usual = {"clipped": 0.0, "clip_factor": 1.0, "spikes": 0, "split": 0}  # not worth a word
    return " · ".join(
        f"{name.replace('_', ' ')} {_number(name, value)}"
        for name, value in values.items()
        if name not in ("seconds", "target_tokens", "progress", "gradient_norms") and value != usual.get(name)
    )


def _finite(value: Any) -> Any:
    """The value, or None where JSON has no number for it."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if name == "clipped":
        return f"{100 * value:.3g} %"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def peak_memory_mb() -> float:
    """The most memory that this process has held, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024
