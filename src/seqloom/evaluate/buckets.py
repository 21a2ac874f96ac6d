"""A metric by sentence length: where a model that is good on average breaks down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import (
    BOOTSTRAP,
    SEED,
    Metric,
    Score,
    checked_references,
    one_metric,
    score,
    statistics_of,
)

# Quintiles: few enough that each bucket of a test set of a thousand sentences has a meaningful interval.
QUANTILES = (0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True)
class Bucket:
    """The score of the sentences that are low to high units long, both included."""

    low: int
    high: int
    unit: str  # "tokens" or "characters"
    score: Score

    @property
    def count(self) -> int:
        return self.score.count

    @property
    def span(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "count": self.count}


def by_length(
    measured: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metric: str | Metric,
    *,
    edges: Sequence[int] | None = None,
    bootstrap: int = BOOTSTRAP,
    seed: int = SEED,
) -> list[Bucket]:
    """The scores by length of `measured`, the source as a rule, from short to long.

    A new bucket begins at every edge and an empty one is left out. Without edges they are quintiles.
    """
    answers = checked_references(hypotheses, references)
    if len(measured) != len(hypotheses):
        raise SeqloomError(
            f"There are {len(measured)} sources but {len(hypotheses)} hypotheses.",
            "give the source of every hypothesis",
        )
    chosen = one_metric(metric)
    statistics = statistics_of(chosen, hypotheses, answers)
    lengths, unit = measure(measured)
    if edges is None:
        edges = [int(edge) for edge in np.quantile(lengths, QUANTILES, method="higher")]
    place = np.searchsorted(np.unique(edges), lengths, side="right")  # (N,) the number of the bucket
    buckets = []
    for rows in (np.flatnonzero(place == number) for number in np.unique(place)):
        part = score(chosen, statistics[rows], [answers[row] for row in rows], bootstrap, seed)
        buckets.append(Bucket(int(lengths[rows].min()), int(lengths[rows].max()), unit, part))
    return buckets


def measure(lines: Sequence[str]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], str]:
    """The length of every line and its unit: tokens, or characters where a line is one word as a rule."""
    tokens = [len(line.split()) for line in lines]
    if median(tokens) > 1:
        return np.array(tokens), "tokens"
    return np.array([len(line.strip()) for line in lines]), "characters"
