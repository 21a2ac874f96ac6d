"""`seqloom plan`, and the table of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import (
    ConfigFile,
    Json,
    Languages,
    Minutes,
    SetAny,
    Source,
    SourceColumn,
    Tables,
    Target,
    TargetColumn,
    TaskOption,
    tables_of,
)
from seqloom.cli.output import new_table, print_json, print_tables

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays fast
    from seqloom.run.planner.plan import Plan


def plan(
    pairs: Tables = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    languages: Languages = None,
    task: TaskOption = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Architecture: see seqloom models.", show_default="chosen"),
    ] = None,
    minutes: Minutes = None,
    config: ConfigFile = None,
    set_: SetAny = None,
    json_: Json = False,
) -> None:
    """Show the options that train would choose.

    The data is read once, and the chosen model is trained on random batches for a few seconds to measure its
    speed on this machine.

    Examples:
      seqloom plan pairs.tsv --minutes 30
      seqloom plan pairs.tsv --model lstm-bilinear --json
    """
    from seqloom.run.config import option_tree
    from seqloom.run.planner.plan import compose_with_plan
    from seqloom.run.task_model import with_task

    values = {
        "data.train": tables_of(pairs),
        "data.source": source,
        "data.target": target,
        "data.source_column": source_column,
        "data.target_column": target_column,
        "data.languages": languages,
        "model.name": model,
    }
    tree = option_tree(config, values, set_ or ())
    if task:
        tree = with_task(tree, task)
    composed, chosen = compose_with_plan(tree, "auto", minutes=minutes)
    if chosen is None:
        print(f"There are no rules for the model {composed.model.name}: all options keep their defaults.")
    elif json_:
        print_json(chosen.as_dict())
    else:
        print_plan(chosen)


def print_plan(plan: Plan, *, stderr: bool = False) -> None:
    """Print the options of a plan with reasons and sources, and the predicted cost."""
    table = new_table("option", "value", "reason", "source", no_wrap=("option",), gap=1)
    before = None
    for choice in plan.choices:
        why = choice.reason, choice.source
        table.add_row(choice.option, _text(choice.value), *(why if why != before else ("", "")))
        before = why
    print_tables(table, *_prediction(plan), stderr=stderr)


def _text(value: object) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def _prediction(plan: Plan) -> list[str]:
    if plan.prediction is None:
        return []
    cost = plan.prediction
    return [
        f"predicted: {cost.minutes:g} min at most, {cost.updates:,} updates, {cost.epochs:,.1f} epochs, "
        f"{cost.target_tokens_per_second:,.0f} target tokens/s",
        f"           {cost.parameters:,} parameters, {cost.memory_mb:,.0f} MB of memory, "
        f"{cost.processor_hours:.2f} processor hours",
    ]
