"""Learning curves, and scores by length and by rarest word, as charts of the report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from seqloom.compare.chart import Dot, Series, category_axis, line_chart, marker, number_axis
from seqloom.compare.page_tables import COLORS, color
from seqloom.compare.results import Point, Row
from seqloom.evaluate.buckets import Bucket

_SPREAD = 0.5  # of the distance between buckets, over which the models of a bucket are spread


def curves(rows: Sequence[Row]) -> str:
    """Return the first metric on validation lines over minutes and over target tokens."""
    points = [point for row in rows for point in row.curve]
    if not points:
        return "<p>No model was validated.</p>"
    label = f"{rows[0].scores[0].label} on validation"
    y = number_axis(label, [point.value for point in points])
    minutes = number_axis("minutes of training", [point.minutes for point in points])
    by_time = [_curve(n, row, [point.minutes for point in row.curve]) for n, row in enumerate(rows)]
    charts = [line_chart(by_time, minutes, y, title=f"{label} by minutes")]
    trained = [point.target_tokens for point in points if point.target_tokens is not None]
    if trained:
        tokens = number_axis("target tokens", trained, most=5)
        by_tokens = [
            _curve(n, row, [point.target_tokens or 0.0 for point in row.curve])
            for n, row in enumerate(rows)
            if not row.fitted
        ]
        charts.append(line_chart(by_tokens, tokens, y, title=f"{label} by target tokens"))
    note = "The best checkpoint by this score is used. A counted model has one point, at its end."
    return _with_legend(charts, rows, note)


def _curve(number: int, row: Row, places: Sequence[float]) -> Series:
    dots = [_dot(point, place) for point, place in zip(row.curve, places, strict=True)]
    return Series(number % COLORS, row.label, dots, is_level=row.fitted)


def _dot(point: Point, x: float) -> Dot:
    return Dot(x, point.value, title=f"{point.value:.1f} after {point.minutes:.1f} minutes")


def buckets(rows: Sequence[Row]) -> str:
    """Return the scores by length and by the rarest word of the source."""
    unit = rows[0].by_length[0].unit
    frequency = "occurrences of the rarest source word in training"
    charts = [
        _bucket_chart(rows, [row.by_length for row in rows], f"{unit} of the source"),
        _bucket_chart(rows, [row.by_frequency for row in rows], frequency),
    ]
    sizes = ", ".join(f"{bucket.count} ({bucket.span})" for bucket in rows[0].by_frequency)
    note = (
        "Test lines by the length of the source (fifths), and by how often its rarest word occurs in the "
        "training sources; 0 is an unknown word. "
        f"Lines by rarest word: {sizes}. Vertical lines are 95 % intervals."
    )
    return _with_legend(charts, rows, note)


def _bucket_chart(rows: Sequence[Row], by_row: Sequence[Sequence[Bucket]], label: str) -> str:
    series = []
    for number, own in enumerate(by_row):
        shift = _SPREAD * (number / (len(rows) - 1) - 0.5) if len(rows) > 1 else 0.0
        dots = [_bucket_dot(place + shift, bucket) for place, bucket in enumerate(own)]
        series.append(Series(number % COLORS, rows[number].label, dots))
    values = [value for one in series for dot in one.dots for value in (dot.y, dot.high or 0.0)]
    metric = rows[0].scores[0].label
    x = category_axis(label, [bucket.span for bucket in by_row[0]])
    return line_chart(series, x, number_axis(metric, values), title=f"{metric} by {label}")


def _bucket_dot(x: float, bucket: Bucket) -> Dot:
    score = bucket.score
    title = f"{bucket.span}: {score.value:.1f} ({bucket.count} lines)"
    return Dot(x, score.value, score.low, score.high, title)


def _with_legend(charts: Sequence[str], rows: Sequence[Row], note: str) -> str:
    items = []
    for number, row in enumerate(rows):
        line = f'<g class="{color(number)}"><path d="M0 6H28"/>{marker(number % COLORS, 14, 6)}</g>'
        items.append(f'<span><svg viewBox="0 0 28 12" class=key>{line}</svg>{escape(row.label)}</span>')
    legend = f"<div class=legend>{''.join(items)}</div>"
    return f"<div class=charts>{''.join(charts)}</div>{legend}<p class=note>{escape(note)}</p>"
