"""Reports of a run: metrics.jsonl, log.txt, TensorBoard and the progress bar."""

from __future__ import annotations

import json
import logging
import math
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from seqloom.files import write_atomically
from seqloom.log import IN_PROGRESS_BAR, LineFile, log_file
from seqloom.progress import ProgressBar, percentage

logger = logging.getLogger(__name__)

_LARGEST = 1e100  # larger than any number in a report


class Log(Protocol):
    """The interface that the training loop reports to."""

    def progress(self, fraction: float, eta: float, values: dict[str, Any]) -> None: ...
    def record(self, kind: str, step: int, values: dict[str, Any]) -> None: ...


class NullLog:
    """The log of a process that reports nothing: all but the main process of a group."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
    def progress(self, fraction: float, eta: float, values: dict[str, Any]) -> None: ...
    def record(self, kind: str, step: int, values: dict[str, Any]) -> None: ...


class RunLog:
    """metrics.jsonl of a run, the progress bar, and log.txt with all messages logged meanwhile."""

    def __init__(
        self,
        folder: Path,
        *,
        step: int = 0,
        averaged: bool = False,  # whether the average of the last checkpoints exists
        tensorboard: bool = False,
        progress: bool = True,  # show a progress bar, or progress lines without a terminal
    ) -> None:
        self.folder, self.shows_progress = folder, progress
        _keep_until(folder / "metrics.jsonl", step, averaged)
        self.board = _tensorboard(folder) if tensorboard else None
        self.bar = ProgressBar("training", total=1.0, describe=percentage, keep=True)
        self._until_exit = ExitStack()

    def __enter__(self) -> Self:
        self.metrics = LineFile(self.folder / "metrics.jsonl")
        self._until_exit.callback(self.metrics.close)
        self._until_exit.enter_context(log_file(self.folder / "log.txt"))
        if self.board:
            self._until_exit.callback(self.board.close)
        if self.shows_progress:
            self._until_exit.enter_context(self.bar)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._until_exit.__exit__(kind, error, trace)

    def progress(self, fraction: float, eta: float, values: dict[str, Any]) -> None:
        """Update the progress bar; cheap enough for every step."""
        if self.shows_progress:
            self.bar.update(fraction, seconds_left=eta, note=_short(values))

    def record(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Append measurements to metrics.jsonl and log them."""
        entry = {"kind": kind, "step": step, **{name: _finite(value) for name, value in values.items()}}
        self.metrics.append(json.dumps(entry))
        if self.board:
            for name, value in _scalars(kind, values):
                self.board.add_scalar(name, value, step)
        in_bar = kind == "train" and self.bar.is_live
        logger.info(
            "%s step %s: %s", kind, f"{step:,}", _short(values), extra=IN_PROGRESS_BAR if in_bar else None
        )


def _keep_until(file: Path, step: int, averaged: bool) -> None:
    """Drop the entries of steps that a resumed run repeats, and a last line truncated by a crash."""
    if not file.exists():
        return
    kept = [
        entry
        for entry in read_metrics(file)
        if entry["step"] <= step and (averaged or entry["kind"] != "average")
    ]
    write_atomically(file, "".join(json.dumps(entry) + "\n" for entry in kept))


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """Return the entries of metrics.jsonl; a line truncated by a crash is skipped."""
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
    """Return whether an entry has the form that `record` writes: kind, step, numbers, and norms by layer."""
    if not isinstance(entry, dict) or (type(entry.get("kind")), type(entry.get("step"))) != (str, int):
        return False
    norms = entry.get("gradient_norms") or {}
    numbers = (value for name, value in entry.items() if name not in ("kind", "gradient_norms"))
    return isinstance(norms, dict) and all(map(_is_number, (*numbers, *norms.values())))


def _is_number(value: Any) -> bool:
    """Return whether a value is a number; None stands for one that was not finite."""
    return value is None or (isinstance(value, int | float) and abs(value) < _LARGEST)


def clipping(entries: Sequence[dict[str, Any]]) -> dict[str, float] | None:
    """Return the share of clipped updates and the mean clip factor of a run; None if they are not recorded.

    An entry covers the n updates since the entry before: Σ n share / Σ n and Σ n share factor / Σ n share.
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
    """Yield the numbers of a report, with the names by which TensorBoard groups them."""
    for name, value in values.items():
        if name == "gradient_norms":
            yield from ((f"gradient_norm/{layer}", norm) for layer, norm in value.items())
        elif isinstance(value, int | float):
            yield f"{kind}/{name}", value


def _short(values: dict[str, Any]) -> str:
    """Return the values to watch as one line, without those that are as usual."""
    usual = {"clipped": 0.0, "clip_factor": 1.0, "spikes": 0, "split": 0}
    return " · ".join(
        f"{name.replace('_', ' ')} {_number(name, value)}"
        for name, value in values.items()
        if name not in ("seconds", "target_tokens", "progress", "gradient_norms") and value != usual.get(name)
    )


def _finite(value: Any) -> Any:
    """Return the value with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if name == "clipped":
        return f"{100 * value:.3g} %"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def peak_memory_mb(*, workers: bool = False) -> float:
    """Return the peak memory of this process in MB, or with `workers` that of the largest process below it."""
    own = _linux_peak_mb() or _usage_mb(resource.RUSAGE_SELF)
    return max(own, _usage_mb(resource.RUSAGE_CHILDREN)) if workers else own


def _usage_mb(who: int) -> float:
    peak = resource.getrusage(who).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024


def _linux_peak_mb() -> float | None:
    """Return the peak of this program; ru_maxrss may be that of the process that started it."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, ValueError, StopIteration):
        return None
