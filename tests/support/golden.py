"""Run directories written by an earlier version: see tests/golden."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


def golden_run(name: str) -> Path:
    """The folder of a recorded run; it is only to be read."""
    return GOLDEN / "fixtures" / name
