"""Comparison with another system on the same lines: differences overall and by length, with p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seqloom.evaluate.buckets import Bucket, measure
from seqloom.evaluate.metrics import BOOTSTRAP, SEED, Metric
from seqloom.evaluate.report import Report
from seqloom.evaluate.significance import Comparison, compare

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Versus:
    """Comparison of another system (b) with the evaluated one (a)."""

    name: str  # of the other system
    report: Report  # of the other system
    overall: Sequence[Comparison]  # one per metric
    by_length: Sequence[tuple[Bucket, Comparison]]  # the first metric in each bucket of a's report

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **self.report.as_dict(),
            "comparisons": [comparison.as_dict() for comparison in self.overall],
            "comparisons_by_length": [
                {"from": bucket.low, "to": bucket.high, "unit": bucket.unit, **comparison.as_dict()}
                for bucket, comparison in self.by_length
            ],
        }


def versus(
    name: str,
    sources: Sequence[str],
    systems: tuple[Sequence[str], Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[Metric],
    reports: tuple[Report, Report],
    *,
    bootstrap: int = BOOTSTRAP,
    seed: int = SEED,
) -> Versus:
    """Compare the second of two systems with the first, on all lines and in each bucket of the first."""
    first, second = systems
    lengths = measure(sources)[0].tolist()
    parts = []
    for bucket in reports[0].buckets:
        rows = [row for row, length in enumerate(lengths) if bucket.low <= length <= bucket.high]
        bucket_a, bucket_b = ([texts[row] for row in rows] for texts in systems)
        bucket_references = [references[row] for row in rows]
        comparison = compare(bucket_a, bucket_b, bucket_references, metrics[0], bootstrap=bootstrap, seed=seed)
        parts.append((bucket, comparison))
    overall = [compare(first, second, references, metric, bootstrap=bootstrap, seed=seed) for metric in metrics]
    return Versus(name, reports[1], overall, parts)


def as_table(result: Versus) -> RenderableType:
    """Return a table of both scores, their difference with its 95 % interval, and its p-value."""
    from rich.table import Table

    table = Table("", title=f"against {result.name}", title_justify="left")
    for heading in ("this", "other", "difference", "95 % interval", "p"):
        table.add_column(heading, justify="right")
    for comparison in result.overall:
        table.add_row(comparison.label, *_cells(comparison))
    for bucket, comparison in result.by_length:
        table.add_row(f"{comparison.label}, {bucket.span} {bucket.unit}", *_cells(comparison))
    return table


def _cells(c: Comparison) -> list[str]:
    span = f"{c.low:+.1f} – {c.high:+.1f}"
    return [f"{c.a:.1f}", f"{c.b:.1f}", f"{c.delta:+.1f}", span, f"{c.p_value:.3f}"]
