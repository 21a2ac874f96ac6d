"""Results of time_to_quality.py: when each toolkit reached the target, as a table and a figure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from trials import Row

from seqloom.inspect.line_styles import line_styles
from seqloom.inspect.picture import PAGE, Style, canvas, legend_below

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Point:
    """BLEU of one checkpoint."""

    step: int
    minutes: float  # of training, since the first update
    minutes_from_start: float  # since the process started
    target_tokens: int
    bleu: float


@dataclass(frozen=True)
class Summary:
    """Training of one toolkit, with its points from oldest to newest."""

    name: str
    version: str
    minutes: float  # of training allowed
    tokens_per_second: float
    points: list[Point]
    reached: Point | None  # first point at or above the target
    ratio: float | None  # of its minutes to those of the first toolkit
    machine: Row

    @property
    def best(self) -> Point:
        return max(self.points, key=lambda point: point.bleu)


def summarise(rows: Sequence[Row], names: Sequence[str], *, beam: int, target: float) -> list[Summary]:
    """Return the latest training of each toolkit that has BLEU scores, in the order of the names."""
    summaries: list[Summary] = []
    for name in names:
        own = [row for row in rows if row["toolkit"] == name]
        trainings = [row for row in own if row["kind"] == "training"]
        found = points(trainings[-1], own, beam) if trainings else []
        if not found:
            continue
        reached = next((point for point in found if point.bleu >= target), None)
        first = summaries[0].reached if summaries else reached
        summaries.append(
            Summary(
                name=trainings[-1]["name"],
                version=trainings[-1]["version"],
                minutes=trainings[-1]["minutes"],
                tokens_per_second=trainings[-1]["tokens_per_second"],
                points=found,
                reached=reached,
                ratio=reached.minutes / first.minutes if reached and first else None,
                machine={key: trainings[-1][key] for key in ("cpu", "cores", "threads", "torch", "date")},
            )
        )
    return summaries


def points(training: Row, rows: Sequence[Row], beam: int) -> list[Point]:
    """Return the checkpoints of a training that were decoded with the given beam size."""
    same = {"kind": "bleu", "minutes": training["minutes"], "beam": beam}
    scores = {row["step"]: row["bleu"] for row in rows if row.items() >= same.items()}
    return [
        Point(
            step=saved["step"],
            minutes=saved["seconds"] / 60,
            minutes_from_start=saved["seconds_from_start"] / 60,
            target_tokens=saved["target_tokens"],
            bleu=scores[saved["step"]],
        )
        for saved in training["checkpoints"]
        if saved["step"] in scores
    ]


def show(summaries: Sequence[Summary], *, target: float, beam: int) -> None:
    """Print the machine and the table."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    for facts in dict.fromkeys(
        "{cpu}, {cores} cores, {threads} threads each, torch {torch}".format(**summary.machine)
        for summary in summaries
    ):
        console.print(facts)
    search = "greedy" if beam == 1 else f"beam {beam}"
    table = Table(f"minutes to {target:g} BLEU ({search})", box=box.MARKDOWN)
    for title in ("training", "from start", "updates", "target tokens", "ratio", "tokens/s", "recorded"):
        table.add_column(title, justify="right")
    for summary in summaries:
        table.add_row(f"{summary.name} {summary.version}", *_cells(summary))
    console.print(table)
    console.print(
        "training: since the first update, including saving, without decoding; from start: since the process "
        "started, including training the tokenizer for seqloom (the others read tokenised files)"
    )


def _cells(summary: Summary) -> list[str]:
    point = summary.reached
    rate, date = f"{summary.tokens_per_second:,.0f}", str(summary.machine["date"])
    if point is None:
        best = summary.best
        missed = f"not in {summary.minutes:g}, best {best.bleu:.1f}"
        return [missed, "–", f"{best.step:,}", f"{best.target_tokens:,}", "–", rate, date]
    return [
        f"{point.minutes:.1f}",
        f"{point.minutes_from_start:.1f}",
        f"{point.step:,}",
        f"{point.target_tokens:,}",
        "–" if summary.ratio is None else f"{summary.ratio:.2f}",
        rate,
        date,
    ]


def draw(summaries: Sequence[Summary], *, target: float, style: Style = PAGE) -> Figure:
    """Draw BLEU by minutes of training, with the target as a horizontal line."""
    title = "Multi30k English → German: BLEU by minutes of training"
    with canvas(6.5, 4.2, style=style, title=title) as figure:
        axes: Any = figure.subplots()
        handles = []
        styles = line_styles([summary.name for summary in summaries])
        for summary in summaries:
            look = styles[summary.name]
            xs, ys = [point.minutes for point in summary.points], [point.bleu for point in summary.points]
            label = f"{summary.name} {summary.version}"
            handles += axes.plot(xs, ys, marker="o", color=look.color, ls=look.line, label=label)
            if summary.reached:
                axes.plot(summary.reached.minutes, summary.reached.bleu, "o", color=look.color, markersize=9)
        label = f"{target:g} BLEU (large dot: reached)"
        handles.append(axes.axhline(target, color="0.5", lw=0.8, ls="--", label=label))
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("minutes of training")
        axes.set_ylabel("BLEU on the validation file")
        axes.grid(axis="y")
        legend_below(figure, handles, style)
    return figure
