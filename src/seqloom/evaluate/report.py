"""Evaluation report as data, plain text and Rich tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seqloom.evaluate.buckets import Bucket, by_length
from seqloom.evaluate.metrics import BOOTSTRAP, SEED, Metric, Score, evaluate, parse_metrics

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Report:
    """Scores, settings and number of lines of an evaluation; the buckets are those of the first metric."""

    scores: Sequence[Score]
    buckets: Sequence[Bucket]
    count: int
    settings: Mapping[str, Any] = field(default_factory=dict)  # for the record: model, file, beam

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON-compatible data."""
        return {
            "count": self.count,
            "settings": dict(self.settings),
            "scores": [score.as_dict() for score in self.scores],
            "buckets": [bucket.as_dict() for bucket in self.buckets],
        }

    def to_text(self) -> str:
        """Return the report as plain text, with the signature of each score."""
        return as_text(self)


def make_report(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: str | Sequence[Metric],
    *,
    settings: Mapping[str, Any] | None = None,
    bootstrap: int = BOOTSTRAP,
    seed: int = SEED,
) -> Report:
    """Return the score of each metric, and the first metric by source length."""
    chosen = parse_metrics(metrics) if isinstance(metrics, str) else metrics
    return Report(
        scores=evaluate(hypotheses, references, chosen, bootstrap=bootstrap, seed=seed),
        buckets=by_length(sources, hypotheses, references, chosen[0], bootstrap=bootstrap, seed=seed),
        count=len(hypotheses),
        settings=settings or {},
    )


def as_text(report: Report) -> str:
    """Return the report as plain text: scores, buckets, then signatures."""
    lines = [f"{report.count} lines"]
    lines += [f"  {score}" for score in report.scores]
    if report.buckets:
        lines.append(f"by source length in {report.buckets[0].unit}")
        lines += [f"  {bucket.span:>8}  n={bucket.count:<6} {bucket.score}" for bucket in report.buckets]
    lines.append("signatures")
    lines += [f"  {score.signature}" for score in report.scores]
    return "\n".join(lines)


def as_tables(report: Report) -> RenderableType:
    """Return the report as tables for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    scores = Table("metric", title=f"{report.count} lines", title_justify="left")
    for heading in ("score", "95 % interval"):
        scores.add_column(heading, justify="right")
    for score in report.scores:
        arrow = "↑" if score.higher_is_better else "↓"
        scores.add_row(f"{score.label} {arrow}", f"{score.value:.1f}", _interval(score))
    parts: list[RenderableType] = [scores]
    if report.buckets:
        parts.append(_bucket_table(report.buckets))
    # Text, because Rich would colour the numbers of a string and interpret brackets as markup.
    parts += [Text(score.signature, style="dim") for score in report.scores]
    return Group(*parts)


def _bucket_table(buckets: Sequence[Bucket]) -> RenderableType:
    from rich.table import Table

    table = Table(title="by source length", title_justify="left")
    for heading in (buckets[0].unit, "lines", buckets[0].score.label, "95 % interval"):
        table.add_column(heading, justify="right")
    for bucket in buckets:
        score = bucket.score
        table.add_row(bucket.span, str(bucket.count), f"{score.value:.1f}", _interval(score))
    return table


def _interval(score: Score) -> str:
    return "" if score.low is None else f"{score.low:.1f} – {score.high:.1f}"
