"""Pairs of which one side is much too long or too short for the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from seqloom.cleaning.rule import LineRule, Pair, Violation

_SMOOTHING = 10  # characters added to both lengths: in short texts a single word changes the ratio
_FACTOR, _DEVIATIONS = (
    2.0,
    4.0,
)  # automatic limit: the larger of a factor and standard deviations of the log ratio
_NORMAL = 1.4826  # standard deviation by median absolute deviation of a normal distribution


class LengthRatio(LineRule):
    """Rule against targets that are too long or too short, in characters, compared to the typical pair."""

    def __init__(self, sample: Sequence[Pair], most: float | None) -> None:
        super().__init__()
        self.typical = median(len(target) / len(source) for source, target in sample) if sample else 1.0
        self.most = most if most is not None else self._automatic(sample)

    def _automatic(self, sample: Sequence[Pair]) -> float:
        deviations = [abs(math.log(self._ratio(pair))) for pair in sample] or [0.0]
        return max(_FACTOR, math.exp(_DEVIATIONS * _NORMAL * median(deviations)))

    @property
    def limit(self) -> str:
        return f"at most {self.most:.3g} times longer or shorter than the typical ratio, {self.typical:.2f}"

    def _ratio(self, pair: Pair) -> float:
        """Return the length of the target, divided by the one that is typical of its source."""
        source, target = map(len, pair)
        return (target + _SMOOTHING) / (self.typical * source + _SMOOTHING)

    def check(self, pair: Pair) -> Violation | None:
        ratio = self._ratio(pair)
        if 1 / self.most <= ratio <= self.most:
            return None
        return Violation(f"target has {len(pair[1]):,} characters, source {len(pair[0]):,}", ratio)
