"""Significance of the difference between two systems: paired bootstrap resampling (Koehn, 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import (
    BOOTSTRAP,
    SEED,
    Metric,
    checked_references,
    computed,
    sentence_metric,
)
from seqloom.evaluate.resample import Matrix, interval, resampled_totals


@dataclass(frozen=True)
class Comparison:
    """Comparison of systems a and b on the same sentences; delta = b - a, with its 95 % interval."""

    name: str
    label: str
    a: float
    b: float
    delta: float
    low: float
    high: float
    p_value: float
    count: int
    higher_is_better: bool

    def winner(self, *, level: float = 0.05) -> str | None:
        """Return `a` or `b`, whichever is significantly better, or None."""
        if self.p_value > level:
            return None
        return "b" if (self.delta > 0) == self.higher_is_better else "a"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        change = f"{self.delta:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"
        return f"{self.label} {self.a:.1f} → {self.b:.1f} ({change}, p = {self.p_value:.3f})"


def compare(
    hypotheses_a: Sequence[str],
    hypotheses_b: Sequence[str],
    references: Sequence[Sequence[str]],
    metric: str | Metric,
    *,
    bootstrap: int = BOOTSTRAP,
    seed: int = SEED,
) -> Comparison:
    """Return the difference of b from a, and the probability of such a difference by chance.

    Both are scored on the same resampled sentences. The p-value is two-sided: the share of samples whose
    difference deviates from the mean difference by at least the observed one (Riezler and Maxwell, 2005).
    """
    if bootstrap < 1:
        raise SeqloomError(f"A comparison needs at least 1 bootstrap sample, got {bootstrap}.", "use 1000")
    chosen = sentence_metric(metric)
    statistics = [
        chosen.corpus_statistics(system, checked_references(system, references))
        for system in (hypotheses_a, hypotheses_b)
    ]
    a, b = (chosen.compute(matrix.sum(axis=0)) for matrix in statistics)
    drawn_a, drawn_b = (
        computed(chosen, resampled_totals(matrix, bootstrap=bootstrap, seed=seed)) for matrix in statistics
    )
    low, high, p_value = difference_test(b - a, drawn_b - drawn_a)
    return Comparison(
        name=chosen.name,
        label=chosen.label,
        a=a,
        b=b,
        delta=b - a,
        low=low,
        high=high,
        p_value=p_value,
        count=len(references),
        higher_is_better=chosen.higher_is_better,
    )


def difference_test(observed: float, drawn: Matrix) -> tuple[float, float, float]:
    """Return the 95 % interval of a difference and its two-sided p-value, given that of each sample, (N,)."""
    low, high = interval(drawn)
    extreme = np.abs(drawn - drawn.mean()) >= abs(observed)
    return low, high, (int(extreme.sum()) + 1) / (len(drawn) + 1)  # + 1: the observed sample
