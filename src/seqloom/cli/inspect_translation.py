"""`seqloom inspect translation`, `seqloom inspect alternatives` and `seqloom inspect curves`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import Beam, Checkpoint, Device, Json, Run, Seed, Temperature
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.inspect.viewed_run import ViewedRun

Text = Annotated[str, typer.Argument(help="Source text.")]
PrefixTokens = Annotated[
    list[str] | None,
    typer.Option("--prefix-token", metavar="TOKEN", help="Token that the output begins with; repeatable."),
]


def translation(
    run: Run,
    text: Text,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Beginning of the output.")] = "",
    prefix_token: PrefixTokens = None,
    beam: Beam = None,
    nbest: Annotated[int, typer.Option(min=1, metavar="N", help="Number of outputs.")] = 5,
    length_penalty: Annotated[
        float | None,
        typer.Option(metavar="A", help="Exponent of the length.", show_default="that of the run"),
    ] = None,
    temperature: Temperature = None,
    seed: Seed = None,
    require: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Word that every output contains; repeatable.")
    ] = None,
    forbid: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Word that no output contains; repeatable.")
    ] = None,
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Show the best outputs and the P of every token.

    With --temperature, samples instead of searching. Tokens for --prefix-token are spelled as in the result.

    Example:
      seqloom inspect translation runs/de-en "ein Haus" --prefix "the"
    """
    from seqloom.inspect.views import document

    given = {
        "text": text,
        "prefix_tokens": prefix_token or (),
        "prefix": prefix,
        "beam": beam,
        "nbest": nbest,
        "length_penalty": length_penalty,
        "temperature": temperature,
        "seed": 1 if seed is None else seed,
        "require": require or (),
        "forbid": forbid or (),
        "checkpoint": checkpoint,
    }
    found = document(_viewed(run, device), "translation", given)
    if json_:
        print_json(found, compact=True)
        return
    for number, one in enumerate(found["hypotheses"], 1):
        print_tables(
            f"{number}. {one['text']}", f"score {_number(one['score'])}, log P {_number(one['log_prob'])}"
        )
        if one["log_probs"]:
            print_tables(_tokens(one))


def alternatives(
    run: Run,
    text: Text,
    prefix_token: PrefixTokens = None,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Token to list whatever its rank is.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Number of alternatives.")] = 20,
    continued: Annotated[
        int, typer.Option(min=0, metavar="N", help="Number of alternatives to continue to a full output.")
    ] = 5,
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Show the likeliest tokens at a place of an output.

    The place is after the tokens of --prefix-token; without them, it is the beginning of the output.

    Example:
      seqloom inspect alternatives runs/de-en "ein Haus" --prefix-token "▁a"
    """
    from seqloom.inspect.views import document

    given = {
        "text": text,
        "prefix_tokens": prefix_token or (),
        "token": token,
        "count": count,
        "continued": continued,
        "checkpoint": checkpoint,
    }
    found = document(_viewed(run, device), "alternatives", given)
    if json_:
        print_json(found, compact=True)
        return
    table = new_table("rank", "token", "P", "output", right=("rank", "P"))
    for one in found["alternatives"]:
        table.add_row(str(one["rank"]), one["token"], f"{one['probability']:.4f}", one.get("continuation", ""))
    print_tables(table)


def curves(run: Run, json_: Json = False) -> None:
    """Print losses, metrics and gradient norms by step.

    For a figure: seqloom info RUN --plot FILE.

    Example:
      seqloom inspect curves runs/de-en --json
    """
    from seqloom.inspect.views import document

    if not json_:
        raise SeqloomError(
            "Curves are printed as JSON only.", "add --json, or use seqloom info RUN --plot FILE"
        )
    print_json(document(_viewed(run, "cpu"), "curves", {}), compact=True)


def _viewed(run: Path, device: str) -> ViewedRun:
    from seqloom.inspect.viewed_run import ViewedRun

    return ViewedRun(run, device=device)


def _number(value: float | None) -> str:
    return "−∞" if value is None else f"{value:.4f}"


def _tokens(one: dict[str, Any]) -> Table:
    table = new_table("token", "P", "log P", right=("P", "log P"))
    for token, log_prob in zip(one["tokens"], one["log_probs"], strict=True):
        value = -math.inf if log_prob is None else log_prob
        table.add_row(token, f"{math.exp(value):.4f}", f"{value:.3f}")
    return table
