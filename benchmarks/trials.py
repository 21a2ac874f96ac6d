"""Trials that may be broken off: trained into a folder each, recorded in a file of JSON lines, and drawn."""

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
from seqloom.config import Config
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.evaluate.metrics import evaluate
from seqloom.inspect.labels import literal, text_width
from seqloom.inspect.looks import Look, looks
from seqloom.inspect.picture import BLUE, PAGE, Style, canvas, legend_below
from seqloom.loading import load
from seqloom.pipeline import continue_run, create
from seqloom.run import Run
from seqloom.testset import TestSet, read_testset
from seqloom.training.log import read_metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]


def read_rows(file: Path) -> list[Row]:
    """What was recorded so far."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def record(file: Path, row: Mapping[str, Any]) -> None:
    """Adds one line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")


def trial_parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every series of trials has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--records", type=Path, required=True, metavar="FILE", help="JSON lines, one per run")
    parser.add_argument("--runs", type=Path, required=True, metavar="FOLDER", help="of the run directories")
    add_figure_options(parser)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    return parser


def conduct(file: Path, plan: Iterable[Row], trial: Callable[..., Row]) -> list[Row]:
    """All that is recorded, once every trial of the plan has been made: `trial(**keys)` gives its results."""
    for keys in plan:
        if any(row.items() >= keys.items() for row in read_rows(file)):
            continue
        row = {**keys, **trial(**keys)}
        record(file, row)
        print(row, file=sys.stderr, flush=True)
    return read_rows(file)


def train_or_resume(config: Config, folder: Path) -> TorchTranslator:
    """The translator of the run in that folder, which is begun, or gone on with where it was broken off."""
    run = Run(folder) if folder.exists() else create(config, folder, quiet=True)
    if not continue_run(run, quiet=True).finished:
        raise SeqloomError(f"{folder} was stopped before its end.", "give the command again to go on with it")
    return load(folder)


def exact_trial(config: Config, folder: Path, test: Path) -> tuple[Row, list[str], TestSet]:
    """Exact match on a test file and what it took; the answers and the test set, for more figures."""
    began = time.process_time()
    translator = train_or_resume(config, folder)
    trained = time.process_time()
    testset = read_testset(config.data, [str(test)])
    answers = [best[0].text for best in translator.translate(testset.sources)]
    score = evaluate(answers, testset.references, "exact")[0]
    row = {
        "exact": score.value,
        "low": score.low,
        "high": score.high,
        "pairs": score.count,
        "processor_seconds": round(trained - began),
        "decoding_seconds": round(time.process_time() - trained),
    }
    return row, answers, testset


def grouped(
    rows: Sequence[Row], group: tuple[str, Sequence[str]], bar: tuple[str, Sequence[str]], of: str
) -> dict[str, dict[str, list[float]]]:
    """A value and its interval by two keys of the rows, in the given order; several seeds become their mean."""
    found: dict[str, dict[str, list[float]]] = {}
    for first in group[1]:
        for second in bar[1]:
            mine = [row for row in rows if (row[group[0]], row[bar[0]]) == (first, second)]
            if mine:
                columns = zip(*((row[of], row["low"], row["high"]) for row in mine), strict=True)
                found.setdefault(first, {})[second] = [sum(column) / len(mine) for column in columns]
    return found


def best_validation(folder: Path, metric: str) -> float:
    """The highest value of that metric on the pairs held out of the training file."""
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
    """Draw groups of bars, each (value, low, high) with its interval; a missing one is marked as not run."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    size = 0.84 / len(names)
    room = size * (style.size[0] if style.size else width) * 0.85 / len(groups)  # inches per bar
    upright = text_width("100.0", style.text) > room
    with canvas(width, 4.0, style=style, title=title) as figure:
        axes = figure.subplots()
        handles = []
        colors = looks(names) if len(names) > 1 else {names[0]: Look(BLUE, "-", "")}
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
    """Draw the bars that there are, with their intervals."""
    found = {x: bar for x, bar in bars.items() if bar}
    values, lows, highs = zip(*found.values(), strict=True)
    spread = [
        [value - low for value, low in zip(values, lows, strict=True)],
        [high - value for value, high in zip(values, highs, strict=True)],
    ]
    return axes.bar(list(found), values, width * 0.92, yerr=spread, error_kw={"elinewidth": 0.8}, **look)
