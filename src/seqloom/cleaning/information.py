"""Rules that measure how much one side of a pair says about the other, and compare it to the typical pair."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from statistics import median
from typing import ClassVar

from seqloom.cleaning.rule import Pair, Progress, Violation


class InformationRule(ABC):
    """Rule against pairs with less than a share of the median score of the pairs that are judged together.

    The median adapts the limit to the data: it is 2.8 nats per word for short sentences in German, and 0.6 for
    inflected words in Finnish. Bad pairs hardly change it while they are a minority.
    """

    unit: ClassVar[str]
    passes: int

    def __init__(self, least: float) -> None:
        self.least = least
        self.warnings: list[str] = []

    @property
    def limit(self) -> str:
        return f"at least {self.least:.0%} of the information of the typical pair, per {self.unit}"

    @abstractmethod
    def scores(self, pairs: Sequence[Pair], on_progress: Progress) -> list[float]:
        """Return the score of each pair; NaN if it cannot be judged."""

    def judge(self, pairs: Sequence[Pair], on_progress: Progress) -> list[Violation | None]:
        scores = self.scores(pairs, on_progress)
        typical = median([score for score in scores if not math.isnan(score)] or [0.0])
        if typical <= 0:
            self.warnings.append(f"{len(pairs):,} pairs show no relation of source and target: all are kept.")
            return [None] * len(pairs)
        return [self._finding(score, typical) for score in scores]

    def _finding(self, score: float, typical: float) -> Violation | None:
        if math.isnan(score) or score >= self.least * typical:
            return None
        return Violation(f"{score:.2f} nats per {self.unit}, typical are {typical:.2f}", score)
