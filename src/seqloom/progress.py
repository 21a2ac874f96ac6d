"""A progress bar on standard error while it is a terminal, silence otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counter(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A function that moves the bar on by so many lines; with a total it shows an ETA."""
    if not sys.stderr.isatty():
        yield lambda lines: None
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
