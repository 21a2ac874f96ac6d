"""Curves measured by benchmarks/recall.py, and their figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from seqloom.inspect.line_styles import line_styles
from seqloom.inspect.picture import PAGE, Style, canvas, legend_below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOAL = 0.95
LINES = {"default": "-", "orthogonal": "--", "open": ":"}
TITLES = {"exact": "trained at that distance alone", "upto": "trained at all distances up to it"}


@dataclass(frozen=True)
class Trial:
    """One trained model."""

    distance: int
    seed: int
    accuracy: float
    steps: int
    seconds: float  # CPU time, because the machine may be busy


@dataclass
class Curve:
    """Runs of one cell with one initialisation and one kind of training, by increasing distance."""

    cell: str
    start: str
    training: str
    parameters: int
    trials: list[Trial] = field(default_factory=list)
    stopped: str = ""  # why longer distances were not tried

    def __str__(self) -> str:
        return f"{self.cell}, {self.start}, {self.training}"

    def distances(self) -> list[int]:
        return sorted({trial.distance for trial in self.trials})

    def accuracies(self, distance: int) -> list[float]:
        return [trial.accuracy for trial in self.trials if trial.distance == distance]

    def median(self, distance: int) -> float:
        return statistics.median(self.accuracies(distance))

    def reach(self) -> int:
        """Return the longest distance up to which the median accuracy is at least GOAL, or 0."""
        reach = 0
        for distance in self.distances():
            if self.median(distance) < GOAL:
                break
            reach = distance
        return reach

    def describe_reach(self) -> str:
        """Return the reach as text; "or more" if no longer distance was tried."""
        reach = self.reach()
        return f"{reach} or more" if reach == self.distances()[-1] else str(reach or "none")

    def as_json(self) -> dict[str, Any]:
        medians = {distance: self.median(distance) for distance in self.distances()}
        return {**asdict(self), "medians": medians, "reach": self.reach()}


def draw_curves(curves: Sequence[Curve], *, chance: float, title: str, style: Style = PAGE) -> Figure:
    """Draw accuracy by distance: one panel per kind of training, one line per cell and initialisation.

    Lines are medians over the seeds, small dots are single runs, and the shaded area is their range.
    """
    trainings = list(dict.fromkeys(curve.training for curve in curves))
    with canvas(max(6.5, 5.6 * len(trainings)), 4.2, style=style, title=title) as figure:
        panels = figure.subplots(1, len(trainings), squeeze=False, sharey=True)[0]
        handles = []
        for panel, training in zip(panels, trainings, strict=True):
            which = f" ({training})" if len(trainings) > 1 else ""
            handles += [_line(panel, curve, which) for curve in curves if curve.training == training]
            goal = panel.axhline(100 * GOAL, color="0.3", lw=0.8, label=f"{100 * GOAL:.0f} %")
            guess = panel.axhline(100 * chance, color="0.4", lw=1, ls=":", label=f"chance: {100 * chance:g} %")
            ticks = sorted({distance for curve in curves for distance in curve.distances()})
            panel.set_xscale("log")
            panel.set_xticks(ticks, [str(tick) for tick in ticks])
            panel.minorticks_off()
            panel.set_ylim(0, 104)
            panel.set_xlabel(f"distance, {TITLES[training]}")
        panels[0].set_ylabel("letters recalled, %")
        legend_below(figure, [*handles, goal, guess], style)
    return figure


def _line(panel: Any, curve: Curve, which: str) -> Any:
    """Draw one curve and return its line."""
    distances, color = curve.distances(), line_styles([f"{curve.cell}-last"])[f"{curve.cell}-last"].color
    spans = [curve.accuracies(distance) for distance in distances]
    lows, highs = ([100 * end(span) for span in spans] for end in (min, max))
    panel.fill_between(distances, lows, highs, color=color, alpha=0.1, linewidth=0)
    runs = [(trial.distance, 100 * trial.accuracy) for trial in curve.trials]
    panel.plot(*zip(*runs, strict=True), linestyle="", marker=".", color=color, alpha=0.4)
    start = "" if curve.start == "default" else f", {curve.start}"
    (line,) = panel.plot(
        distances,
        [100 * curve.median(distance) for distance in distances],
        color=color,
        linestyle=LINES[curve.start],
        marker="o",
        label=f"{curve.cell.upper()}{start}{which}: {100 * GOAL:.0f} % up to {curve.describe_reach()}",
    )
    return line
