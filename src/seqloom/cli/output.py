"""Output of all commands: JSON, tables, and counts of quality flags."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import IO, TYPE_CHECKING

from seqloom.strict_json import json_text

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.console import RenderableType
    from rich.table import Table


def print_json(value: object, *, compact: bool = False) -> None:
    """Print a value as JSON, indented unless `compact`."""
    print(json_text(value, indent=None if compact else 2))


def write_json_line(stream: IO[str], value: object) -> None:
    """Write a value as one line of JSON."""
    stream.write(json_text(value) + "\n")


def new_table(
    *columns: str, title: str = "", right: Collection[str] = (), no_wrap: Collection[str] = (), gap: int = 2
) -> Table:
    """Return an empty table; the columns in `right` are right-aligned, as numbers are."""
    from rich import box
    from rich.table import Table

    sides = (0, 1) if gap == 2 else (0, gap, 0, 0)
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=sides)
    for column in columns:
        alignment = "right" if column in right else "left"
        table.add_column(column, justify=alignment, no_wrap=column in no_wrap, overflow="fold")  # type: ignore[arg-type]
    return table


def print_tables(*parts: RenderableType, stderr: bool = False) -> None:
    """Print tables and lines of text verbatim: `[b]` is not markup, and numbers are not coloured."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, stderr=stderr)
    for part in parts:
        console.print(part)


def print_flag_counts(counts: Mapping[str, int], total: int, run: str = "") -> None:
    """Print the number of outputs with each quality flag on standard error; `run` names the model."""
    from seqloom.decode.quality_flags import MEANING

    of_run = f" of {run}" if run else ""
    for flag, meaning in MEANING.items():
        if count := counts.get(flag):
            print(f"suspicious: {count:,} of {total:,} outputs{of_run} ({flag}: {meaning})", file=sys.stderr)
