"""Verdict and figures of experiments that are repeated with several random seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from statistics import mean
from typing import TYPE_CHECKING, TypeVar

from seqloom.labs.framework.lab import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEEDED_SEEDS = 3  # for "holds"
Kind = TypeVar("Kind", bound=str)
Result = TypeVar("Result")


def by_kind(kinds: Sequence[Kind], seeds: int, run: Callable[[Kind, int], Result]) -> dict[str, list[Result]]:
    """Return the results of every kind of model with the seeds 1, 2, ..."""
    return {kind: [run(kind, seed) for seed in range(1, seeds + 1)] for kind in kinds}


def verdict_over_seeds(*, in_every_seed: bool, on_average: bool, seeds: int) -> Verdict:
    """Return the verdict of a criterion that was tested for every seed and for the means over the seeds."""
    if not on_average:
        return Verdict.NOT_HERE
    return Verdict.HOLDS if in_every_seed and seeds >= NEEDED_SEEDS else Verdict.IN_PART


def draw_bars(panel: Axes, values: Mapping[str, Sequence[float]], colors: Mapping[str, str]) -> None:
    """Draw the mean of every kind as a bar, and its seeds as points."""
    for kind, row in values.items():
        panel.bar([kind], [mean(row)], color=colors[kind], alpha=0.75)
        panel.plot([kind] * len(row), row, "o", color="0.2")


def draw_curves(
    panel: Axes, x: Sequence[float], rows: Mapping[str, Sequence[Sequence[float]]], colors: Mapping[str, str]
) -> None:
    """Draw the mean of every kind as a line over x, and its seeds as points; equal lines stay visible."""
    for (kind, seeds), line in zip(rows.items(), cycle(("-", "--", "-.")), strict=False):
        for row in seeds:
            panel.plot(x, row, "o", color=colors[kind], alpha=0.35)
        panel.plot(
            x, [mean(column) for column in zip(*seeds, strict=True)], line, color=colors[kind], label=kind
        )


def percent(shares: Sequence[float]) -> list[float]:
    """Return shares as percentages."""
    return [100 * one for one in shares]
