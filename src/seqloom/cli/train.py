"""`seqloom train` and `seqloom resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import (
    ConfigFile,
    Languages,
    Minutes,
    PlanOption,
    SetAny,
    SetLimit,
    Source,
    SourceColumn,
    Tables,
    Target,
    TargetColumn,
    TaskOption,
    ValidSource,
    ValidTables,
    ValidTarget,
    tables_of,
)
from seqloom.cli.options import Run as RunArgument
from seqloom.cli.plan import print_plan
from seqloom.cli.processes import Processes, launch

_RESTARTS = 3  # if one of several processes is lost, all are restarted


def train(
    pairs: Tables = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Run directory to create.")] = ...,  # type: ignore[assignment]
    valid: ValidTables = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    languages: Languages = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    task: TaskOption = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Architecture: see seqloom models.", show_default="chosen"),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Model size: tiny, small or base.", show_default="chosen"),
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
    minutes: Minutes = None,
    plan: PlanOption = None,
    config: ConfigFile = None,
    set_: SetAny = None,
    processes: Processes = 1,
) -> None:
    """Train a model on pairs of sequences or on plain text.

    Options that you leave open are chosen from the data, this machine and the time budget; a table shows each
    with its reason.

    Without validation data, a part of the training data is held out. Ctrl-C saves a checkpoint and stops;
    seqloom resume continues.

    Examples:
      seqloom train pairs.tsv --out runs/first --minutes 30
      seqloom train --source train.de --target train.en --out runs/de-en
      seqloom train pairs.tsv --model lstm-additive --out runs/lstm
      seqloom train text.txt --model lm --out runs/lm
      seqloom train reviews.tsv --task classify --out runs/class
      seqloom train pairs.tsv --out runs/x --set model.layers=4
    """
    from seqloom.distributed.process_group import init_process_group, was_restarted
    from seqloom.run.config import from_options, option_tree
    from seqloom.run.directory import Run
    from seqloom.run.load import commands_for
    from seqloom.run.planner.plan import compose_with_plan, plan_mode
    from seqloom.run.task_model import with_task
    from seqloom.run.train import create_and_train

    values = {
        "data.train": tables_of(pairs),
        "data.valid": valid or None,
        "data.source": source,
        "data.target": target,
        "data.source_column": source_column,
        "data.target_column": target_column,
        "data.languages": languages,
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
    tree = option_tree(config, values, set_ or ())
    if task:
        tree = with_task(tree, task)
    with init_process_group(from_options(tree).train.device) as group:
        composed, chosen = from_options(tree), None
        if group.is_main and not was_restarted():
            composed, chosen = compose_with_plan(tree, plan_mode(plan, config), minutes=minutes)
        if chosen:
            print_plan(chosen, stderr=True)
        finished = create_and_train(composed, out, plan=chosen, group=group, restarted=was_restarted()).finished
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
