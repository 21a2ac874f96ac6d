"""Interface of the rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Pair = tuple[str, str]  # source and target
Progress = Callable[[int], None]  # called with the number of newly judged pairs

SIDES = ("source", "target")
REPORTED = 1000  # lines between two updates of the progress bar


class Violation(NamedTuple):
    """Reason to drop a pair, with the score of the rule."""

    reason: str
    score: float | None = None


class CleaningRule(Protocol):
    """Check of pairs. A rule may store pairs, so every pair is judged once, in the order of the corpus."""

    passes: int  # number of passes over the pairs, for the progress bar
    warnings: list[str]  # reasons to distrust the result

    @property
    def limit(self) -> str:
        """Condition that pairs must meet, e.g. `at least 0.2 nats per word`."""
        ...

    def judge(self, pairs: Sequence[Pair], on_progress: Progress) -> Sequence[Violation | None]:
        """Return the violation of each pair, or None."""
        ...


class LineRule(ABC):
    """A rule that checks one pair at a time."""

    passes = 1

    def __init__(self) -> None:
        self.warnings: list[str] = []

    @property
    @abstractmethod
    def limit(self) -> str:
        """Condition that pairs must meet."""

    @abstractmethod
    def check(self, pair: Pair) -> Violation | None:
        """Return the violation of a pair, or None."""

    def judge(self, pairs: Sequence[Pair], on_progress: Progress) -> list[Violation | None]:
        violations: list[Violation | None] = []
        for start in range(0, len(pairs), REPORTED):
            part = pairs[start : start + REPORTED]
            violations += map(self.check, part)
            on_progress(len(part))
        return violations
