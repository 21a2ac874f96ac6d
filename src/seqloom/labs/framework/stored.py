"""Numbers that a benchmark of the repository measured once, for claims that need hours of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seqloom.labs.framework.lab import Numbers

_FOLDER = Path(__file__).parents[1] / "measured"


class StoredNumbers(Numbers):
    """Numbers with their origin."""

    command: str
    date: str
    machine: str
    options: str  # of the models and the test

    def origin(self) -> str:
        """Return when, where and how the numbers were measured."""
        return f"Measured on {self.date}, {self.machine}, by {self.command}"


class StoredScore(Numbers):
    """A score and its 95 % bootstrap interval over the test lines."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"

    def above(self, other: StoredScore) -> bool:
        """Return whether the score is higher and the intervals do not overlap."""
        return self.low > other.high


def measured(name: str) -> dict[str, Any]:
    """Return the stored numbers of a lab as plain data."""
    values: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return values
