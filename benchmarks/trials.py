"""Series of training trials that can be interrupted: one run per trial, results in a JSON lines file."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command import add_figure_options

from seqloom import SeqloomError
from seqloom.data.testset import TestSet, read_testset
from seqloom.decode.translator import Translator
from seqloom.evaluate.metrics import evaluate
from seqloom.inspect.labels import literal, text_width
from seqloom.inspect.line_styles import LineStyle, line_styles
from seqloom.inspect.picture import BLUE, PAGE, Style, canvas, legend_below
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.run.load import load
from seqloom.run.train import continue_run, create
from seqloom.training.run_log import read_metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]


def read_rows(file: Path) -> list[Row]:
    """Return the rows recorded so far."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def record(file: Path, row: Mapping[str, Any]) -> None:
    """Append one row."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")


def trial_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all series of trials share."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--records", type=Path, required=True, metavar="FILE", help="results, as JSON lines")
    parser.add_argument("--runs", type=Path, required=True, metavar="FOLDER", help="folder for the runs")
    add_figure_options(parser)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], help="random seeds (default: 1)")
    return parser


def run_trials(file: Path, plan: Iterable[Row], trial: Callable[..., Row]) -> list[Row]:
    """Run every trial of the plan that is not recorded and return all rows; `trial(**keys)` returns results."""
    for keys in plan:
        if any(row.items() >= keys.items() for row in read_rows(file)):
            continue
        row = {**keys, **trial(**keys)}
        record(file, row)
        print(row, file=sys.stderr, flush=True)
    return read_rows(file)


def train_or_resume(config: Config, folder: Path) -> Translator:
    """Train the run in the folder, or resume it, and return its translator."""
    run = Run(folder) if folder.exists() else create(config, folder, quiet=True)
    if not continue_run(run, quiet=True).finished:
        raise SeqloomError(f"Training of {folder} was interrupted.", "Repeat the command to resume it.")
    return load(folder)


def exact_trial(config: Config, folder: Path, test: Path) -> tuple[Row, list[str], TestSet]:
    """Train and decode a test file; return exact match and times, the outputs and the test set."""
    began = time.process_time()
    translator = train_or_resume(config, folder)
    trained = time.process_time()
    testset = read_testset(config.data, [str(test)])
    outputs = [best[0].text for best in translator.translate(testset.sources)]
    score = evaluate(outputs, testset.references, "exact")[0]
    row = {
        "exact": score.value,
        "low": score.low,
        "high": score.high,
        "pairs": score.count,
        "processor_seconds": round(trained - began),
        "decoding_seconds": round(time.process_time() - trained),
    }
    return row, outputs, testset


def grouped(
    rows: Sequence[Row], group: tuple[str, Sequence[str]], bar: tuple[str, Sequence[str]], of: str
) -> dict[str, dict[str, list[float]]]:
    """Return a value and its interval by two keys of the rows, in the given order, as means over seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    for first in group[1]:
        for second in bar[1]:
            mine = [row for row in rows if (row[group[0]], row[bar[0]]) == (first, second)]
            if mine:
                columns = zip(*((row[of], row["low"], row["high"]) for row in mine), strict=True)
                found.setdefault(first, {})[second] = [sum(column) / len(mine) for column in columns]
    return found


def best_validation(folder: Path, metric: str) -> float:
    """Return the highest validation value of the metric."""
    rows = read_metrics(folder / "metrics.jsonl")
    return max(float(row[metric]) for row in rows if row["kind"] == "valid")


def bar_figure(
    groups: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    label: str,
    group: str,
    title: str,
    width: float,
    style: Style = PAGE,
) -> Figure:
    """Draw groups of bars, each (value, low, high), with intervals; missing bars are marked "not run"."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    size = 0.84 / len(names)
    room = size * (style.size[0] if style.size else width) * 0.85 / len(groups)  # inches per bar
    upright = text_width("100.0", style.text) > room
    with canvas(width, 4.0, style=style, title=title) as figure:
        axes = figure.subplots()
        handles = []
        colors = line_styles(names) if len(names) > 1 else {names[0]: LineStyle(BLUE, "-", "")}
        for place, (name, look) in enumerate(colors.items()):
            offset = (place - (len(names) - 1) / 2) * size
            bars = {x + offset: bars.get(name) for x, bars in enumerate(groups.values())}
            handles.append(_bars(axes, bars, size, label=name, color=look.color, hatch=look.hatch))
            for x, bar in bars.items():
                high, text = (bar[2] + 1.5, f"{bar[0]:.1f}") if bar else (1.5, "not run")
                turned = 90 if upright or not bar else 0
                axes.text(
                    x, high, text, ha="center", va="bottom", rotation=turned, color="0.2" if bar else "0.5"
                )
        axes.set_xticks(range(len(groups)), [literal(name) for name in groups])
        axes.set_ylim(0, 125 if upright else 112)
        axes.set_yticks(range(0, 101, 20))
        axes.set_xlabel(group)
        axes.set_ylabel(label)
        if len(names) > 1:
            legend_below(figure, handles, style)
    return figure


def _bars(axes: Any, bars: Mapping[float, Sequence[float] | None], width: float, **look: Any) -> Any:
    """Draw the available bars with their intervals."""
    found = {x: bar for x, bar in bars.items() if bar}
    values, lows, highs = zip(*found.values(), strict=True)
    spread = [
        [value - low for value, low in zip(values, lows, strict=True)],
        [high - value for value, high in zip(values, highs, strict=True)],
    ]
    return axes.bar(list(found), values, width * 0.92, yerr=spread, error_kw={"elinewidth": 0.8}, **look)
