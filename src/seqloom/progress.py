"""Progress on standard error: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FIRST, _LONGEST = 10.0, 600.0  # seconds between two lines, at first and at most


class Intervals:
    """When to print a line of progress: after ten seconds, then after twice the time of the line before."""

    def __init__(self) -> None:
        self._printed, self._wait = time.monotonic(), _FIRST

    def is_due(self) -> bool:
        """Return whether it is time for a line; then the next one is due later."""
        now = time.monotonic()
        if now - self._printed < self._wait:
            return False
        self._printed, self._wait = now, min(2 * self._wait, _LONGEST)
        return True


@contextmanager
def counter(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of finished lines; with a total it shows the remaining time."""
    if not sys.stderr.isatty():
        yield _Lines(label, total).advance
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(label),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda lines: bar.advance(task, lines)


class _Lines:
    """Progress where there is no terminal."""

    def __init__(self, label: str, total: int | None) -> None:
        self._label, self._total, self._done = label, total, 0
        self._began, self._intervals = time.monotonic(), Intervals()

    def advance(self, lines: int) -> None:
        self._done += lines
        if self._intervals.is_due():
            print(f"{self._label}: {self._done:,}{self._rest()}", file=sys.stderr, flush=True)

    def _rest(self) -> str:
        if not self._total or not self._done:
            return ""
        left = (time.monotonic() - self._began) * (self._total / self._done - 1)
        return f" of {self._total:,}, about {duration(left)} left"


def duration(seconds: float) -> str:
    """Return a time as people write it: 45 s, 12 min, 3 h 05."""
    if seconds != seconds or seconds == float("inf"):
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d}"
