"""`seqloom tune training`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.figures import write_figure
from seqloom.cli.options import (
    Json,
    SetAny,
    Source,
    SourceColumn,
    Target,
    TargetColumn,
    ValidSource,
    ValidTables,
    ValidTarget,
)
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.tune.report import StudyReport

_FIGURE = "trials.png"


def training(
    pairs: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Tables of training pairs: TSV, CSV, JSONL or Parquet."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the study; an existing one is continued.")
    ] = ...,  # type: ignore[assignment]
    trials: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of trials, including those of earlier calls.")
    ] = 20,
    steps: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Budget of each trial in training steps.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Budget of each trial in minutes of training.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Metric to tune for, on validation data.",
            show_default="train.best_by, else chrf",
        ),
    ] = None,
    space: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML file with the options to tune and their ranges."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the proposed options.")] = 1,
    valid: ValidTables = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Architecture: see seqloom models.", show_default="transformer"),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Model size: tiny, small or base.", show_default="small"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML file with the options of the first trial.")
    ] = None,
    set_: SetAny = None,
    json_: Json = False,
) -> None:
    """Search for good training options with Optuna and successive halving.

    Every trial is a run directory in DIR. Poor trials end early. The first trial has the given options.
    Options given with --set stay fixed. Run the same command again to continue after an interruption, or with
    more --trials. `training` may be left out.

    Examples:
      seqloom tune pairs.tsv --trials 20 --steps 2000 --out tuning
      seqloom tune pairs.tsv --minutes 10 --metric bleu --out tuning
    """
    from seqloom.tune.runner import run_study
    from seqloom.tune.settings import study_settings
    from seqloom.tune.study import read_report, require_optuna

    require_optuna()
    if (steps is None) == (minutes is None):
        raise SeqloomError("The budget of a trial must be given.", "use either --steps or --minutes")
    if "-" in (pairs or []):
        raise SeqloomError("A study reads its data many times, so - cannot be used.", "give a file")
    values = {
        "data.train": pairs or None,
        "data.valid": valid or None,
        "data.source": source,
        "data.target": target,
        "data.source_column": source_column,
        "data.target_column": target_column,
        "data.valid_source": valid_source,
        "data.valid_target": valid_target,
        "model.name": model,
        "model.size": size,
        "train.max_steps": steps,
        "train.max_minutes": minutes,
    }
    settings = study_settings(config, values, set_ or (), metric=metric, space=space, seed=seed)
    if not run_study(out, settings, trials):
        print("stopped; run the same command again to continue")
        raise typer.Exit(130)
    report = read_report(out)
    figure = _draw(report)
    if json_:
        print_json(report.as_dict())
        return
    print_tables(_table(report))
    for line in _conclusion(report, figure):
        print(line)


def _draw(report: StudyReport) -> Path | None:
    """Draw the trials into the folder of the study if matplotlib is installed."""
    from seqloom.tune.picture import StudyFigure

    if find_spec("matplotlib") is None:
        return None
    path = report.folder / _FIGURE
    write_figure(StudyFigure(report), path, style="page")
    return path


def _table(report: StudyReport) -> Table:
    """Return the trials, best first, with the values of the tuned options."""
    names = list(dict.fromkeys(name for trial in report.trials for name in trial.options))
    short = [name.partition(".")[2].replace("_", " ") for name in names]
    numbers = ("trial", report.metric, *short)
    table = new_table("trial", "state", *numbers[1:], right=numbers, no_wrap=("state", report.metric), gap=1)
    for trial in report.ranked:
        options = (_shown(trial.options.get(name)) for name in names)
        table.add_row(str(trial.number), trial.state, _shown(trial.value, digits=4), *options)
    return table


def _conclusion(report: StudyReport, figure: Path | None) -> Iterator[str]:
    """Yield the best trial, its gain over the given options, and what to do next."""
    best, first = report.best, report.trials[0]
    if best is None or best.value is None:
        yield "no trial was completed"
        return
    given = f"; trial 1: {first.value:.4g}" if first.state == "complete" and first.value is not None else ""
    run = report.folder / best.run
    yield f"best: trial {best.number}, {report.metric} {best.value:.4g}{given}"
    yield f"  seqloom tune search {shlex.quote(str(run))}"
    yield f"  seqloom train --config {shlex.quote(str(run / 'config.yaml'))} --out runs/best"
    yield f"all trials: {report.folder / 'results.json'}{f', {figure}' if figure else ''}"


def _shown(value: object, digits: int = 2) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
