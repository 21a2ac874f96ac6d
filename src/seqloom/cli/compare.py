"""`seqloom compare`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import Json, SetAny, Source, SourceColumn, Target, TargetColumn
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.compare.results import Results, Row

_YAML = (".yaml", ".yml")


def compare(
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Tables of pairs: TSV, CSV, JSONL or Parquet; or one YAML file with the options below.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the comparison; an existing one is continued.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Models, separated by commas: see seqloom models; word-based is IBM Model 1 with a trigram "
            "language model.",
            show_default="word-based, phrase, lstm-last, lstm-bilinear, transformer",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.01, metavar="N", help="Budget of each trained model in minutes.", show_default="10"),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Budget in updates instead of minutes.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of runs per model, with the seeds 1, 2, ...", show_default="1"
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Metrics, separated by commas; the first one ranks the models and selects their checkpoints.",
            show_default="chosen from the data",
        ),
    ] = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    set_: SetAny = None,
    retry: Annotated[bool, typer.Option("--retry", help="Try models again that have failed.")] = False,
    json_: Json = False,
) -> None:
    """Compare several models on your data under the same budget.

    Split, tokenizer and test part are made once and shared. DIR gets report.html, results.json and one run
    directory per model. Run the same command again to continue after an interruption: finished models are kept.
    A model that fails becomes a row with a diagnosis.

    Examples:
      seqloom compare pairs.tsv --out cmp
      seqloom compare pairs.tsv --models phrase,transformer --minutes 5 --out cmp
      seqloom compare comparison.yaml
    """
    from seqloom.compare.folder import ComparisonFolder
    from seqloom.compare.page import report_page
    from seqloom.compare.results import read_results
    from seqloom.compare.runner import cost, run_comparison, set_up
    from seqloom.compare.settings import compare_settings
    from seqloom.outputs import write_output
    from seqloom.strict_json import json_text

    files, yaml = _files(pairs or [])
    values: dict[str, Any] = {
        "pairs": files or None,
        "source": source,
        "target": target,
        "source_column": source_column,
        "target_column": target_column,
        "models": models,
        "minutes": minutes,
        "steps": steps,
        "seeds": seeds,
        "metrics": metrics,
        "set": set_ or None,
    }
    settings, named = compare_settings(yaml, values)
    if out is None and named is None:
        raise SeqloomError("No folder for the comparison was given.", "e.g. --out comparison")
    folder = ComparisonFolder(out or Path(str(named)))
    setup = set_up(folder, settings)
    left = [system for system in setup.systems if retry or not folder.is_done(system)]
    if left:
        print(f"time: {cost(setup, left)}", file=sys.stderr, flush=True)
    finished = run_comparison(folder, setup, retry=retry)
    results = read_results(folder)
    write_output(folder.results_file, json_text(results.as_dict(), indent=2) + "\n")
    write_output(folder.page_file, report_page(results, _command(files, yaml, values, folder)))
    if not finished:
        print("stopped; run the same command again to continue", file=sys.stderr)
        raise typer.Exit(130)
    if json_:
        print_json(results.as_dict())
        return
    print_tables(*_tables(results), *_notes(results))
    print(f"report: {folder.page_file}")


def _files(names: list[str]) -> tuple[list[str], Path | None]:
    """Return the tables, or the YAML file."""
    yaml = [name for name in names if Path(name).suffix.lower() in _YAML]
    if "-" in names:
        raise SeqloomError("A comparison reads its data several times, so - cannot be used.", "give a file")
    if len(yaml) > 1 or (yaml and len(names) > 1):
        raise SeqloomError("A YAML file must be the only argument.", "name the tables in its key pairs")
    return ([], Path(yaml[0])) if yaml else (names, None)


def _command(files: list[str], yaml: Path | None, values: dict[str, Any], folder: Any) -> str:
    """Return the command line of the comparison."""
    words = ["seqloom", "compare", *([str(yaml)] if yaml else files)]
    for name, value in values.items():
        if name != "pairs" and value is not None:
            for one in value if isinstance(value, list) else [value]:
                words += [f"--{name.replace('_', '-')}", f"{one:g}" if isinstance(one, float) else str(one)]
    return shlex.join([*words, "--out", str(folder.path)])


def _tables(results: Results) -> Iterator[Table]:
    """Yield the scores and the cost of each model."""
    setup = results.setup
    labels = [score.label for score in results.rows[0].scores] if results.rows else []
    title = f"{setup.sizes.test:,} test pairs; budget of a trained model: {setup.settings.budget}"
    first = [*labels[:1], "95 % interval", *labels[1:], "to the best", "p"]
    scores = new_table("model", *first, right=first, no_wrap=("model", *first), title=title, gap=1)
    for row in results.rows:
        scores.add_row(row.label, *_scores(row))
    for run in results.failed:
        scores.add_row(run.name, "failed")
    yield scores
    second = ("parameters", "minutes", "updates", "tokens/s", "memory", "sentences/s")
    cost = new_table("model", *second, right=second, no_wrap=("model", *second), gap=1)
    for row in results.rows:
        cost.add_row(row.label, *_cost(row))
    yield cost


def _scores(row: Row) -> list[str]:
    first, *others = row.scores
    span = "" if first.low is None else f"{first.low:.1f} – {first.high:.1f}"
    difference, p = "best", ""
    if one := row.difference:
        difference, p = f"{one.delta:+.1f} [{one.low:+.1f}, {one.high:+.1f}]", f"{one.p_value:.3f}"
    return [f"{first.value:.1f}", span, *(f"{score.value:.1f}" for score in others), difference, p]


def _cost(row: Row) -> list[str]:
    return [
        f"{row.parameters:,}",
        f"{row.minutes:.1f}",
        "" if row.steps is None else f"{row.steps:,}",
        "" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}",
        f"{row.memory_mb:,.0f} MB",
        f"{row.sentences_per_second:,.1f}",
    ]


def _notes(results: Results) -> list[str]:
    """Return the failures with their diagnosis."""
    lines = []
    for run in results.failed:
        lines.append(f"{run.name} failed: {run.message}" + (f" ({run.hint})" if run.hint else ""))
        lines += [f"  doctor: {one['problem']} {one['evidence']}; {one['advice']}" for one in run.findings]
    if results.failed:
        lines.append("  --retry tries failed models again")
    return lines
