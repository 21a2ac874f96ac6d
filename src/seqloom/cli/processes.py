"""`--processes N`: run a command in several processes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

Processes = Annotated[
    int, typer.Option(min=1, metavar="N", help="Number of processes on this machine that share the work.")
]


def launch(processes: int, *, restarts: int = 0) -> None:
    """Run this command without `--processes` in several processes, and exit with their exit code."""
    from seqloom.distributed.launch import launch as launch_processes

    position = next(i for i, word in enumerate(sys.argv) if word.startswith("--processes"))
    rest = sys.argv[1:position] + sys.argv[position + (1 if "=" in sys.argv[position] else 2) :]
    if code := launch_processes(rest, processes, restarts=restarts):
        raise typer.Exit(code)
