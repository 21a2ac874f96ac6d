"""`seqloom tune search`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import Device, HeadsColumn, Json, SourceColumn, TargetColumn, Threads
from seqloom.cli.options import Run as RunArgument
from seqloom.cli.output import new_table, print_json, print_tables

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.tune.choice import Measured
    from seqloom.tune.search import Setting


def search(
    run: RunArgument,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE", help="Table of validation pairs.", show_default="the validation part of the run"
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Metric to choose by.", show_default="that of the run, else chrf"),
    ] = None,
    beams: Annotated[
        str | None, typer.Option(metavar="LIST", help="Beam sizes.", show_default="1,2,3,5,8")
    ] = None,
    norms: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Values of search.length_norm.", show_default="length,gnmt"),
    ] = None,
    penalties: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Values of search.length_penalty.", show_default="0,0.4,0.6,0.8,1,1.2,1.6"
        ),
    ] = None,
    lines: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of validation lines to decode.")
    ] = 1000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report only; do not change the run.")] = False,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    heads_column: HeadsColumn = None,
    device: Device = "auto",
    threads: Threads = None,
    json_: Json = False,
) -> None:
    """Choose beam size and length penalty of a run on validation data.

    Writes the chosen options into the run, so that translate and evaluate use them. The options before are
    kept in search-tuning.json of the run. The choice is the cheapest setting whose score is at most one
    standard error below the best one.

    Examples:
      seqloom tune search runs/de-en
      seqloom tune search runs/de-en valid.tsv --metric bleu --beams 1,4 --dry-run
    """
    import torch

    from seqloom.data.readers import check_tables
    from seqloom.data.testset import read_testset
    from seqloom.evaluate.metrics import sentence_metric
    from seqloom.progress import counter
    from seqloom.run.directory import Run
    from seqloom.run.load import load_decoder
    from seqloom.system import checked_threads
    from seqloom.tune.apply import apply_setting, only_user
    from seqloom.tune.choice import RULE, best_of, choose, measure
    from seqloom.tune.lists import norms_of, penalties_of, sizes_of
    from seqloom.tune.search import decode_all, grid, searches_needed, setting_of
    from seqloom.tune.validation import metric_of, validation_data

    opened = Run.open(run)
    config = opened.config()
    if threads is not None:
        torch.set_num_threads(checked_threads(threads))
    chosen_metric = sentence_metric(metric or metric_of(config.train))
    settings = grid(
        config.search, beams=sizes_of(beams), norms=norms_of(norms), penalties=penalties_of(penalties)
    )
    translator = load_decoder(run, device=device)
    columns = {"source_column": source_column, "target_column": target_column, "heads_column": heads_column}
    if file is None:
        check_tables((), columns)
        data = validation_data(opened)
    else:
        data = read_testset(
            config.data,
            [file],
            source_column=source_column,
            target_column=target_column,
            heads_column=heads_column,
        )
    data = replace(
        data, sources=data.sources[:lines], references=data.references[:lines], heads=data.heads[:lines]
    )
    with nullcontext() if dry_run else only_user(opened):
        total = len(data.sources) * searches_needed(config.search, settings)
        with counter("decoded", total=total) as advance:
            decoded = list(decode_all(translator, data, settings, on_progress=advance))
        measured = measure(decoded, data.references, chosen_metric)
        best, chosen, before = best_of(measured), choose(measured), setting_of(config.search)
        report = {
            "data": data.name,
            "lines": len(data.sources),
            "metric": chosen_metric.name,
            "engine": translator.engine,
            "rule": RULE,
            "best": best.setting.options(),
            "chosen": chosen.setting.options(),
            "settings": [one.as_dict() for one in measured],
        }
        if not dry_run:
            apply_setting(opened, chosen.setting, report)
    if json_:
        print_json({"run": str(run), "written": not dry_run, "before": before.options(), **report})
        return
    print(f"{data.name}: {len(data.sources):,} lines")
    print_tables(_table(_shown(measured, (before, best.setting, chosen.setting)), chosen, before))
    print(f"chosen: {RULE}")
    print(f"{'not written (--dry-run)' if dry_run else f'written to {run}'}: {_assignments(chosen.setting)}")


def _shown(measured: Sequence[Measured], always: Sequence[Setting]) -> list[Measured]:
    """Return the best setting of each beam size and norm, and those that are always shown."""
    groups: dict[tuple[int, str], Measured] = {}
    for one in measured:
        key = (one.setting.beam, one.setting.length_norm)
        if key not in groups or one.below_best < groups[key].below_best:
            groups[key] = one
    return [one for one in measured if one in groups.values() or one.setting in always]


def _table(rows: Sequence[Measured], chosen: Measured, before: Setting) -> Table:
    numbers = ("beam", "penalty", rows[0].score.label, "95 % interval", "sentences/s")
    table = new_table("beam", "norm", *numbers[1:], "", right=numbers)
    for one in rows:
        notes = ("best" * (one.below_best == 0), "before" * (one.setting == before), "chosen" * (one == chosen))
        table.add_row(
            str(one.setting.beam),
            one.setting.length_norm,
            f"{one.setting.length_penalty:g}",
            f"{one.score.value:.2f}",
            f"{one.score.low:.1f} – {one.score.high:.1f}",
            f"{one.sentences_per_second:.1f}",
            ", ".join(filter(None, notes)),
        )
    return table


def _assignments(setting: Setting) -> str:
    return ", ".join(f"search.{name}={value}" for name, value in setting.options().items())
