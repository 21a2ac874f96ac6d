"""A metric by sentence length, which shows where a model that is good on average fails."""

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
)

# Quintiles: few enough for a meaningful interval in each bucket of a test set of a thousand sentences.
QUANTILES = (0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True)
class Bucket:
    """Score of the sentences with a length, or another number, from low to high units, both inclusive."""

    low: int
    high: int
    unit: str  # of a length: "tokens" or "characters"
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
    """Return scores by the length of `measured`, usually the sources, from short to long.

    A new bucket begins at each edge, and empty buckets are left out. By default, the buckets are quintiles.
    """
    if len(measured) != len(hypotheses):
        raise SeqloomError(
            f"There are {len(measured)} sources but {len(hypotheses)} hypotheses.",
            "give one source per hypothesis",
        )
    checked_references(hypotheses, references)
    lengths, unit = measure(measured)
    if edges is None:
        edges = [int(edge) for edge in np.quantile(lengths, QUANTILES, method="higher")]
    return by_value(lengths, unit, hypotheses, references, metric, edges=edges, bootstrap=bootstrap, seed=seed)


def by_value(
    values: Sequence[int] | np.ndarray[Any, np.dtype[np.int64]],
    unit: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metric: str | Metric,
    *,
    edges: Sequence[int],
    bootstrap: int = BOOTSTRAP,
    seed: int = SEED,
) -> list[Bucket]:
    """Return scores by a number of each sentence, from low to high; a new bucket begins at each edge."""
    checked = checked_references(hypotheses, references)
    chosen, numbers = one_metric(metric), np.asarray(values)
    indices = np.searchsorted(np.unique(edges), numbers, side="right")  # (N,) index of the bucket
    buckets = []
    for rows in (np.flatnonzero(indices == index).tolist() for index in np.unique(indices)):
        expected = [checked[row] for row in rows]
        statistics = chosen.corpus_statistics([hypotheses[row] for row in rows], expected)
        part = score(chosen, statistics, expected, bootstrap, seed)
        buckets.append(Bucket(int(numbers[rows].min()), int(numbers[rows].max()), unit, part))
    return buckets


def measure(lines: Sequence[str]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], str]:
    """Return the length of each line and the unit: tokens, or characters if most lines are single words."""
    tokens = [len(line.split()) for line in lines]
    if median(tokens) > 1:
        return np.array(tokens), "tokens"
    return np.array([len(line.strip()) for line in lines]), "characters"
