"""`seqloom train` and `seqloom resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Run as RunArgument
from seqloom.cli.options import SetAny, SetLimit, Source, SourceColumn, Target, TargetColumn
from seqloom.cli.processes import Processes, launch

_RESTARTS = 3  # if one of several processes is lost, all are restarted


def train(
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Tables of pairs: TSV, CSV, JSONL or Parquet; text files for --model lm and mlm; - is "
            "standard input.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Run directory to create.")] = ...,  # type: ignore[assignment]
    valid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Table of validation pairs; repeatable.",
            show_default="a part of the data",
        ),
    ] = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    valid_source: Annotated[
        str | None, typer.Option(metavar="FILE", help="Text file with validation sources.")
    ] = None,
    valid_target: Annotated[
        str | None, typer.Option(metavar="FILE", help="Text file with validation targets.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Architecture: see seqloom models.", show_default="transformer"),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Model size: tiny, small or base.", show_default="small"),
    ] = None,
    long: Annotated[
        str | None,
        typer.Option(
            metavar="ACTION",
            help="What to do with sequences that are too long: drop, truncate or error.",
            show_default="drop",
        ),
    ] = None,
    init_from: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="Run whose weights and tokenizers to start from; repeatable."),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="YAML file with options.")] = None,
    set_: SetAny = None,
    processes: Processes = 1,
) -> None:
    """Train a model on pairs of sequences or on plain text.

    Without validation data, a part of the training data is held out. Ctrl-C saves a checkpoint and stops;
    seqloom resume continues.

    Examples:
      seqloom train pairs.tsv --out runs/first --size tiny
      seqloom train --source train.de --target train.en --out runs/de-en
      seqloom train pairs.tsv --model lstm-additive --out runs/lstm
      seqloom train text.txt --model lm --out runs/lm
      seqloom train pairs.tsv --out runs/x --set train.max_minutes=30
    """
    from seqloom.data.corpus import keep_standard_input
    from seqloom.distributed.process_group import init_process_group, was_restarted
    from seqloom.errors import SeqloomError
    from seqloom.run.config import compose
    from seqloom.run.directory import Run
    from seqloom.run.load import commands_for
    from seqloom.run.train import create_and_train

    if (pairs or []).count("-") > 1:
        raise SeqloomError("Standard input (-) can be read only once.", "give - once")
    tables = [keep_standard_input() if table == "-" else table for table in pairs or []]
    values = {
        "data.train": tables or None,
        "data.valid": valid or None,
        "data.source": source,
        "data.target": target,
        "data.source_column": source_column,
        "data.target_column": target_column,
        "data.valid_source": valid_source,
        "data.valid_target": valid_target,
        "data.long": long,
        "model.name": model,
        "model.size": size,
        "train.init_from": init_from or None,
    }
    if processes > 1:
        launch(processes, restarts=_RESTARTS)
        return
    composed = compose(config, values, set_ or ())
    with init_process_group(composed.train.device) as group:
        finished = create_and_train(composed, out, group=group, restarted=was_restarted()).finished
    if finished and group.is_main:
        print(f"trained: {out}")
        for command in commands_for(Run.open(out)):
            print(f"  {command}")


def resume(
    run: RunArgument,
    set_: SetLimit = None,
    processes: Processes = 1,
) -> None:
    """Continue training a run from its newest checkpoint.

    The result is the same as that of a run that was never interrupted. A finished run trains for longer if
    you raise its limit.

    Examples:
      seqloom resume runs/de-en
      seqloom resume runs/de-en --set train.max_steps=20000
    """
    from seqloom.distributed.process_group import init_process_group
    from seqloom.run.directory import Run
    from seqloom.run.train import continue_run

    if processes > 1:
        launch(processes, restarts=_RESTARTS)
        return
    opened = Run.open(run)
    with init_process_group(opened.config().train.device) as group:
        state = continue_run(opened, limits=set_ or (), group=group)
    if state.finished and group.is_main:
        print(f"trained: {run} ({state.step:,} steps: {state.finished})")
