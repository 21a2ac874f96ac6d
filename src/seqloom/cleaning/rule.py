"""Interface of the rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Pair = tuple[str, str]  # source and target
Progress = Callable[[int], None]  # called with the number of newly judged pairs

SIDES = ("source", "target")
REPORTED = 1000  # lines between two updates of the progress bar


class Finding(NamedTuple):
    """Why a pair should be dropped."""

    reason: str
    score: float | None = None


class Rule(Protocol):
    """Judge of pairs. A rule may remember pairs, so every pair is judged once, in the order of the corpus."""

    passes: int  # how often it looks at every pair, for the progress bar
    warnings: list[str]  # reasons to distrust its findings

    @property
    def limit(self) -> str:
        """What a pair has to meet, e.g. `at least 0.2 nats per word`."""
        ...

    def judge(self, pairs: Sequence[Pair], on_progress: Progress) -> Sequence[Finding | None]:
        """Return the finding about each pair, or None."""
        ...


class LineRule(ABC):
    """A rule that looks at one pair at a time."""

    passes = 1

    def __init__(self) -> None:
        self.warnings: list[str] = []

    @property
    @abstractmethod
    def limit(self) -> str:
        """What a pair has to meet."""

    @abstractmethod
    def look(self, pair: Pair) -> Finding | None:
        """Return the finding about a pair, or None."""

    def judge(self, pairs: Sequence[Pair], on_progress: Progress) -> list[Finding | None]:
        findings: list[Finding | None] = []
        for start in range(0, len(pairs), REPORTED):
            part = pairs[start : start + REPORTED]
            findings += map(self.look, part)
            on_progress(len(part))
        return findings
