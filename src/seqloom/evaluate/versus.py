"""Another system on the same lines: the differences on the whole and by length, each with its p-value."""

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
    """How the other system (b) differs from the one reported on (a)."""

    name: str  # of the other system
    report: Report  # the other system's own
    whole: Sequence[Comparison]  # one per metric
    parts: Sequence[tuple[Bucket, Comparison]]  # the first metric in each bucket of a's report

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **self.report.as_dict(),
            "comparisons": [comparison.as_dict() for comparison in self.whole],
            "comparisons_by_length": [
                {"from": bucket.low, "to": bucket.high, "unit": bucket.unit, **comparison.as_dict()}
                for bucket, comparison in self.parts
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
    """The second of two systems against the first, on all lines and on those of each bucket of the first."""
    first, second = systems
    lengths = measure(sources)[0].tolist()
    parts = []
    for bucket in reports[0].buckets:
        rows = [row for row, length in enumerate(lengths) if bucket.low <= length <= bucket.high]
        ours, theirs = ([texts[row] for row in rows] for texts in systems)
        answers = [references[row] for row in rows]
        part = compare(ours, theirs, answers, metrics[0], bootstrap=bootstrap, seed=seed)
        parts.append((bucket, part))
    whole = [compare(first, second, references, metric, bootstrap=bootstrap, seed=seed) for metric in metrics]
    return Versus(name, reports[1], whole, parts)


def as_table(result: Versus) -> RenderableType:
    """Both scores, the difference with its 95 % interval, and how likely chance alone would bring it."""
    from rich.table import Table

    table = Table("", title=f"against {result.name}", title_justify="left")
    for heading in ("this", "other", "difference", "95 % interval", "p"):
        table.add_column(heading, justify="right")
    for comparison in result.whole:
        table.add_row(comparison.label, *_cells(comparison))
    for bucket, comparison in result.parts:
        table.add_row(f"{comparison.label}, {bucket.span} {bucket.unit}", *_cells(comparison))
    return table


def _cells(c: Comparison) -> list[str]:
    span = f"{c.low:+.1f} – {c.high:+.1f}"
    return [f"{c.a:.1f}", f"{c.b:.1f}", f"{c.delta:+.1f}", span, f"{c.p_value:.3f}"]
