"""Progress on standard error: a bar on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:  # imported where used: importing rich takes time
    from rich.console import Console
    from rich.progress import Progress

_FIRST, _LONGEST = 10.0, 600.0  # seconds between two lines: at first, and at most


@functools.cache
def stderr_console() -> Console:
    """Return the console for standard error; lines printed on it appear above the progress bar."""
    from rich.console import Console

    return Console(stderr=True, markup=False, emoji=False, highlight=False)


def count(done: float, total: float | None) -> str:
    """Return e.g. `80 of 1,000`."""
    return f"{done:,.0f}" if total is None else f"{done:,.0f} of {total:,.0f}"


def percentage(done: float, total: float | None) -> str:
    """Return e.g. `8 %`."""
    return f"{100 * done / (total or 1):.0f} %"


def megabytes(done: float, total: float | None) -> str:
    """Return e.g. `1.2 of 3.4 MB`."""
    return f"{done / 1e6:.1f} MB" if total is None else f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"


class ProgressBar:
    """Progress of a long task.

    Without a terminal, a line is printed after 10 seconds, and then at intervals that double up to 10 minutes.
    """

    def __init__(
        self,
        label: str,
        total: float | None = None,
        *,
        describe: Callable[[float, float | None], str] = count,
        keep: bool = False,  # leave the bar on the screen at the end
    ) -> None:
        self._label, self._total, self._describe, self._keep = label, total, describe, keep
        self._done = 0.0
        self._start = self._printed = time.monotonic()
        self._wait = _FIRST
        self._bar: Progress | None = None

    @property
    def is_live(self) -> bool:
        """Whether a bar is shown on a terminal."""
        return self._bar is not None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TextColumn

            label = TextColumn("{task.description}", markup=False)
            status = TextColumn("{task.fields[status]}", markup=False)
            columns = (label, BarColumn(bar_width=24), status)
            self._bar = Progress(*columns, console=stderr_console(), transient=not self._keep)
            self._bar.add_task(self._label, total=self._total, status="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None

    def advance(self, amount: float) -> None:
        """Add to the finished work."""
        self.update(self._done + amount)

    def update(self, done: float, *, seconds_left: float | None = None, note: str = "") -> None:
        """Set the finished work; the remaining time is estimated from the speed unless given."""
        self._done = done
        if self._bar:
            status = self._status(seconds_left, note)
            self._bar.update(self._bar.task_ids[0], completed=done, status=status)
        elif self._is_due():
            print(f"{self._label}: {self._status(seconds_left, note)}", file=sys.stderr, flush=True)

    def _is_due(self) -> bool:
        """Return whether a line is due, and schedule the next one."""
        now = time.monotonic()
        if now - self._printed < self._wait:
            return False
        self._printed, self._wait = now, min(2 * self._wait, _LONGEST)
        return True

    def _status(self, seconds_left: float | None, note: str) -> str:
        if seconds_left is None and self._total and self._done:
            seconds_left = (time.monotonic() - self._start) * (self._total / self._done - 1)
        is_running = self._total is None or self._done < self._total
        left = f", about {duration(seconds_left)} left" if seconds_left is not None and is_running else ""
        return f"{self._describe(self._done, self._total)}{left}{note and f': {note}'}"


@contextmanager
def counter(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show the progress of countable items; yield a function to call with the number of newly finished ones."""
    with ProgressBar(label, total) as bar:
        yield bar.advance


def duration(seconds: float) -> str:
    """Return a duration in a readable unit: 45 s, 12 min, 3 h 05."""
    if seconds != seconds or seconds == float("inf"):
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d}"
