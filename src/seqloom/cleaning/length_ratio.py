"""Pairs of which one side is much too long or too short for the other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from seqloom.cleaning.rule import Finding, LineRule, Pair

_SMOOTHING = 10  # characters added to both lengths: in short texts a single word changes the ratio


class LengthRatio(LineRule):
    """Rule against targets that are too long or too short, in characters, compared to the typical pair."""

    def __init__(self, sample: Sequence[Pair], most: float) -> None:
        self.most = most
        self.typical = median(len(target) / len(source) for source, target in sample) if sample else 1.0

    @property
    def limit(self) -> str:
        return f"at most {self.most:g} times or 1/{self.most:g} of the typical ratio {self.typical:.2f}"

    def look(self, pair: Pair) -> Finding | None:
        source, target = map(len, pair)
        ratio = (target + _SMOOTHING) / (self.typical * source + _SMOOTHING)
        if 1 / self.most <= ratio <= self.most:
            return None
        return Finding(f"target has {target:,} characters, source {source:,}", ratio)
