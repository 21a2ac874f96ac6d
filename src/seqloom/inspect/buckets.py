"""Scores by source length, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seqloom.errors import SeqloomError
from seqloom.evaluate.buckets import Bucket
from seqloom.inspect.grid import label_bars
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.labels import literal
from seqloom.inspect.line_styles import line_styles
from seqloom.inspect.picture import Style, legend_below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OFFSET = 0.06  # between two systems, as a fraction of the distance between buckets


@dataclass(frozen=True)
class ScoresByLength(Inspection):
    """Score of each length bucket with its 95 % interval, by system name."""

    systems: Mapping[str, Sequence[Bucket]]

    def __post_init__(self) -> None:
        if not any(self.systems.values()):
            raise SeqloomError("There are no buckets to draw.", "evaluate on at least one line")

    def to_dict(self) -> dict[str, Any]:
        """Return the buckets of every system."""
        return {name: [bucket.as_dict() for bucket in buckets] for name, buckets in self.systems.items()}

    @property
    def _first(self) -> Bucket:
        return next(buckets[0] for buckets in self.systems.values() if buckets)

    def _title(self) -> str:
        return f"{self._first.score.label} by source length"

    def _size(self) -> tuple[float, float]:
        return 6.0, 3.6 + 0.2 * (len(self.systems) > 1)

    def _draw(self, figure: Figure, style: Style) -> None:
        axes = figure.subplots()
        spans = {bucket.low: bucket.span for buckets in self.systems.values() for bucket in buckets}
        places = {span: place for place, (_, span) in enumerate(sorted(spans.items()))}
        lines: list[Any] = []
        for (name, buckets), line_style in zip(
            self.systems.items(), line_styles(list(self.systems)).values(), strict=True
        ):
            known = [bucket for bucket in buckets if bucket.span in places]
            values = [bucket.score.value for bucket in known]
            line: dict[str, Any] = {"color": line_style.color, "linestyle": line_style.line, "marker": "o"}
            offset = _OFFSET * (len(lines) - (len(self.systems) - 1) / 2)  # intervals must not hide each other
            xs = [places[bucket.span] + offset for bucket in known]
            lines.append(axes.errorbar(xs, values, yerr=_intervals(known), label=literal(name), **line))
        label_bars(axes, list(places), (style.size or self._size())[0] - 1, style)
        axes.set_xlabel(f"{self._first.unit} of the source")
        axes.set_ylabel(self._first.score.label)
        axes.grid()
        if len(lines) > 1:
            legend_below(figure, lines, style)


def _intervals(buckets: Sequence[Bucket]) -> tuple[list[float], list[float]]:
    """Return how far each interval extends below and above its score; 0 if it is unknown."""
    scores = [bucket.score for bucket in buckets]
    below = [0.0 if one.low is None else max(0.0, one.value - one.low) for one in scores]
    above = [0.0 if one.high is None else max(0.0, one.high - one.value) for one in scores]
    return below, above
