"""Quality and speed of several runs with several engines and beam sizes, and the Pareto front among them.

    python benchmarks/pareto.py runs/large runs/student --source test.en --target test.de --out front.png

Every engine that can decode a run translates the lines greedily and with beam 5, in a process of its own; the
systems take turns. A point is on the front if no other point is at least as good and at least as fast.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command import Failures, add_figure_options, run_command
from decoders import SYSTEMS, TORCH, Decoder, Result, Setup, run_decoder
from machine import describe
from rich import box
from rich.console import Console
from rich.table import Table
from safetensors import safe_open

from seqloom.data.lines import lines
from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import evaluate
from seqloom.inspect.line_styles import line_styles
from seqloom.inspect.picture import PAGE, Style, canvas, legend_below, save_figure
from seqloom.run.directory import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEAMS = (1, 5)
ENGINES = (TORCH, "seqloom-ctranslate2", "seqloom-int8")
_MARKERS = dict(zip(ENGINES, "os^", strict=True))


@dataclass(frozen=True)
class Point:
    """Quality and speed of a run with an engine and a beam size."""

    run: str
    engine: str
    beam: int
    bleu: float
    low: float | None  # 95 % bootstrap interval
    high: float | None
    sentences_per_second: float  # median of the repeats
    slowest: float
    fastest: float
    parameters: int
    on_front: bool = False

    def dominates(self, other: Point) -> bool:
        """Return whether this point is at least as good and as fast, and better in one of the two."""
        mine, theirs = ((p.bleu, p.sentences_per_second) for p in (self, other))
        return mine[0] >= theirs[0] and mine[1] >= theirs[1] and mine != theirs


def mark_front(points: Sequence[Point]) -> list[Point]:
    """Return the points, fastest last, with the Pareto front marked."""
    marked = [replace(p, on_front=not any(other.dominates(p) for other in points)) for p in points]
    return sorted(marked, key=lambda p: p.sentences_per_second)


def parameters(run: Path) -> int:
    """Return the number of parameters of the best checkpoint."""
    with safe_open(Run.open(run).weights(), "pt") as file:
        return sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118


def measure(options: argparse.Namespace, work: Path, failures: Failures) -> list[Point]:
    """Return a point for every run, engine and beam size."""
    sources, references = (
        list(islice(lines(str(path)), options.lines)) for path in (options.source, options.target)
    )
    setups: dict[str, Setup] = {}
    decoders: dict[tuple[str, str], Decoder] = {}
    for folder in options.runs:
        (own := work / folder.name).mkdir()
        setups[folder.name] = Setup(folder, own, options.environments, options.threads, batch=64)
        for engine in options.engines:
            with failures.collect(f"{folder.name} with {engine}"):
                decoders[folder.name, engine] = SYSTEMS[engine](setups[folder.name])
    results: dict[tuple[str, str], list[Result]] = {}
    for repeat in range(options.repeats):
        for (name, engine), decoder in decoders.items():
            system = f"{name} with {engine}"
            if system in failures:
                continue
            print(f"round {repeat + 1} of {options.repeats}: {system} …", file=sys.stderr, flush=True)
            (place := setups[name].work / f"{engine}-{repeat}").mkdir()
            with failures.collect(system):
                found = run_decoder(decoder, setups[name], sources, BEAMS, single=1, folder=place)
                results.setdefault((name, engine), []).append(found)
    sizes = {folder.name: parameters(folder) for folder in options.runs}
    return mark_front(list(_points(results, references, sizes)))


def _points(
    results: Mapping[tuple[str, str], Sequence[Result]], references: Sequence[str], sizes: Mapping[str, int]
) -> Iterator[Point]:
    for (name, engine), runs in results.items():
        for beam in BEAMS:
            timings = [run.searches[beam] for run in runs]
            rates = [len(references) / timing.seconds for timing in timings]
            (score,) = evaluate(timings[0].outputs, [[line] for line in references], "bleu")
            yield Point(
                run=name,
                engine=engine,
                beam=beam,
                bleu=score.value,
                low=score.low,
                high=score.high,
                sentences_per_second=statistics.median(rates),
                slowest=min(rates),
                fastest=max(rates),
                parameters=sizes[name],
            )


def show(points: Sequence[Point], facts: str) -> None:
    """Print the table, fastest first."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(facts)
    table = Table("run", "engine", "search", box=box.MARKDOWN)
    for title in ("parameters", "BLEU", "95 % interval", "sentences/s", "range", "front"):
        table.add_column(title, justify="right")
    for point in reversed(points):
        table.add_row(
            point.run,
            point.engine.removeprefix("seqloom-"),
            "greedy" if point.beam == 1 else f"beam {point.beam}",
            f"{point.parameters:,}",
            f"{point.bleu:.1f}",
            "–" if point.low is None else f"{point.low:.1f} – {point.high:.1f}",
            f"{point.sentences_per_second:,.0f}",
            f"{point.slowest:,.0f} – {point.fastest:,.0f}",
            "yes" if point.on_front else "",
        )
    console.print(table)


def draw(points: Sequence[Point], *, style: Style = PAGE) -> Figure:
    """Draw BLEU by sentences per second: colours are runs, markers engines, filled points beam 5."""
    colors = line_styles(list(dict.fromkeys(point.run for point in points)))
    with canvas(6.5, 4.4, style=style, title="BLEU by decoding speed") as figure:
        axes: Any = figure.subplots()
        front = [point for point in points if point.on_front]
        handles = axes.plot(
            [p.sentences_per_second for p in front], [p.bleu for p in front], color="0.6", label="Pareto front"
        )
        for point in points:
            color = colors[point.run].color
            face = color if point.beam > 1 else "white"
            marker = _MARKERS[point.engine]
            axes.plot(point.sentences_per_second, point.bleu, marker, color=color, mfc=face, zorder=3)
        for name, look in colors.items():
            handles += axes.plot([], [], "-", lw=5, color=look.color, label=name)
        for engine in dict.fromkeys(point.engine for point in points):
            label = engine.removeprefix("seqloom-")
            handles += axes.plot([], [], _MARKERS[engine], color="0.3", label=label)
        handles += axes.plot([], [], "o", color="0.3", mfc="white", label="hollow: greedy; filled: beam 5")
        axes.set_xscale("log")
        axes.set_xlabel("sentences per second")
        axes.set_ylabel("BLEU")
        axes.grid(axis="both")
        legend_below(figure, handles, style)
    return figure


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument("--source", type=Path, required=True, metavar="FILE", help="source lines")
    parser.add_argument("--target", type=Path, required=True, metavar="FILE", help="reference lines")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--lines", type=int, default=1000, help="number of lines (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each system (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="number of processors (default: %(default)s)")
    parser.add_argument(
        "--environments", type=Path, default=Path.home() / ".cache" / "seqloom" / "peers", metavar="FOLDER"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the points as JSON")
    add_figure_options(parser)
    options = parser.parse_args()
    if len({run.name for run in options.runs}) < len(options.runs):
        raise SeqloomError("Two runs have the same folder name.", "rename one: it is the label of its points")
    return options


def main() -> None:
    options = parse()
    machine = describe(options.threads, importlib.metadata.version("torch"))
    failures = Failures()
    with tempfile.TemporaryDirectory(prefix="seqloom-benchmark-") as temporary:
        points = measure(options, Path(temporary), failures)
    processor = f"{machine.cpu}, {machine.cores} cores, {machine.threads} threads"
    show(points, f"{processor}, torch {machine.torch}, {machine.date}")
    if options.json:
        content = {"machine": asdict(machine), "points": [asdict(point) for point in points]}
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if options.out:
        save_figure(draw(points, style=options.style), options.out)
    failures.raise_if_any()


if __name__ == "__main__":
    run_command(main)
