"""`seqloom train` and `seqloom resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.launch import ON_THIS_MACHINE, launch
from seqloom.cli.options import Source, SourceColumn, Target, TargetColumn

_RESTARTS = 3  # of all processes, when one is lost


def train(
    pairs: Annotated[
        list[str] | None,
        typer.Argument(help="Tables of pairs: TSV, CSV, JSONL, Parquet; text for lm and mlm; - is stdin."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The run directory to make.")] = ...,  # type: ignore[assignment]
    valid: Annotated[list[str] | None, typer.Option(help="Tables of validation pairs.")] = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    valid_source: Annotated[str | None, typer.Option(help="A file of validation sources.")] = None,
    valid_target: Annotated[str | None, typer.Option(help="The file of their targets.")] = None,
    model: Annotated[str | None, typer.Option(help="The architecture; see `seqloom models`.")] = None,
    size: Annotated[str | None, typer.Option(help="One dial for its size: tiny, small or base.")] = None,
    long: Annotated[str | None, typer.Option(help="Too long a line: drop, truncate or error.")] = None,
    init_from: Annotated[
        list[str] | None, typer.Option(help="A run to start from: its weights and tokenizers; repeatable.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of options.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any option, e.g. --set train.max_minutes=30.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help=ON_THIS_MACHINE)] = 1,
) -> None:
    """Train a model on pairs of sequences, or a language model on plain text.

    A held-out part is split off when no validation data is given. Ctrl-C saves; `seqloom resume` goes on.
    """
    from seqloom.config import compose
    from seqloom.corpus import keep_standard_input
    from seqloom.errors import SeqloomError
    from seqloom.loading import commands_for
    from seqloom.pipeline import create_and_train
    from seqloom.run import Run
    from seqloom.team import joined, was_restarted

    if (pairs or []).count("-") > 1:
        raise SeqloomError("Standard input (-) can be read only once.", "name it once")
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
    with joined(composed.train.device) as team:
        finished = create_and_train(composed, out, team=team, restarted=was_restarted()).finished
    if finished and team.leads:
        print(f"trained: {out}")
        for command in commands_for(Run.open(out)):
            print(f"  {command}")


def resume(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A new limit: train.max_steps, max_minutes, max_epochs or patience."),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help=ON_THIS_MACHINE)] = 1,
) -> None:
    """Continue training a run from its newest checkpoint, exactly as if it had never stopped.

    With --set train.max_steps=... a finished run trains for longer.
    """
    from seqloom.pipeline import continue_run
    from seqloom.run import Run
    from seqloom.team import joined

    if processes > 1:
        launch(processes, restarts=_RESTARTS)
        return
    opened = Run.open(run)
    with joined(opened.config().train.device) as team:
        state = continue_run(opened, limits=set_ or (), team=team)
    if state.finished and team.leads:
        print(f"trained: {run} ({state.step:,} steps: {state.finished})")
