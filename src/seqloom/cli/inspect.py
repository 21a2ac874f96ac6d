"""`seqloom inspect`: look inside a model."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.drawing import check_drawing, write_drawing
from seqloom.cli.inspect_alignment import alignment
from seqloom.cli.inspect_attention import attention
from seqloom.cli.inspect_hmm import hmm
from seqloom.cli.inspect_search import search
from seqloom.cli.inspect_stacks import stacks
from seqloom.cli.options import Style
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

SHOWN = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200)  # distances in the table

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table
    from torch import nn

    from seqloom.data.store import TokenStore
    from seqloom.inspect.gradients import Curve, GradientFlow

app = typer.Typer(no_args_is_help=True, help="Look inside a model: its gradients, its attention, its search.")
app.command()(attention)
app.command()(search)
app.command()(alignment)
app.command()(stacks)
app.command()(hmm)


@app.command()
def gradients(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|CONFIG", help="The models: run directories (best weights), YAML files (fresh ones)."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the curves: .png, .svg, .pdf or .json.")] = None,
    style: Style = "page",
    batches: Annotated[int, typer.Option(min=1, help="Batches of 16 pairs, longest targets first.")] = 2,
    max_distance: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="How far back to look, in tokens.")
    ] = 50,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the YAML files, e.g. data.train=pairs.tsv.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="A list of objects, one per model.")] = False,
) -> None:
    """Measure how the loss at step i depends on states and inputs before it, by distance.

    The pairs come from the validation part of each model's own data.
    """
    from seqloom.inspect.gradient_picture import GradientComparison
    from seqloom.inspect.gradients import longest_batches, measure_gradients
    from seqloom.inspect.looks import display_names
    from seqloom.progress import counter

    check_drawing(out, style, GradientComparison.formats)
    if set_ and all(path.is_dir() for path in models):
        raise SeqloomError(
            "--set has no configuration file to change: a run is as it was trained.", "leave it out"
        )
    flows, names = [], []
    for path in models:
        name, model, store = _open(path, set_ or [])
        names.append(name)
        chosen = longest_batches(store, batches)
        steps = sum(int(batch.target_lengths.max()) for batch in chosen if batch.target_lengths is not None)
        with counter(f"{path}: steps", total=steps) as advance:
            flow = measure_gradients(
                model, chosen, name=str(path), max_distance=max_distance, on_progress=advance
            )
        flows.append(flow)
    if out:
        shown = zip(flows, display_names(names, models), strict=True)
        comparison = GradientComparison([replace(flow, name=name) for flow, name in shown])
        write_drawing(comparison, out, style=style)
    if json_:
        print(json_text([flow.to_dict() for flow in flows], indent=2))
    else:
        _print(flows)


def _open(path: Path, assignments: list[str]) -> tuple[str, nn.Module, TokenStore]:
    """Return name and model of a run (best weights) or a configuration (fresh ones), and validation data."""
    from seqloom.building import build_model, load_model
    from seqloom.config import compose
    from seqloom.corpus import Corpus
    from seqloom.run import Run

    if path.is_dir():
        run = Run.open(path)
        model, _ = load_model(run)
        config = run.config()
        return config.model.name, model, Corpus(config.data, config.text).reopen(run).valid
    if not path.is_file():
        raise SeqloomError(
            f"{path} is neither a run directory nor a configuration file.",
            "give the folder that --out named when training, or a YAML file",
        )
    config = compose(path, assignments=assignments)
    prepared = Corpus(config.data, config.text).prepare(say=lambda line: print(line, file=sys.stderr))
    return config.model.name, build_model(config, prepared.tokenizers), prepared.valid


def _print(flows: list[GradientFlow]) -> None:
    from rich.console import Console

    console = Console()
    for flow in flows:
        console.print(_table(flow))
        if flow.overflows:
            console.print(
                f"{flow.overflows:,} gradients overflow even in double precision; the means leave them out.\n"
            )
        if flow.spectral_radius is not None:
            console.print(f"largest |λ| of W: {flow.spectral_radius:.4f}\n", highlight=False)


def _table(flow: GradientFlow) -> Table:
    """Mean norms at some distances, a column per curve."""
    from rich import box
    from rich.table import Table

    heads = {"hidden": "hidden state", "cell": "cell", "target": "target input"}
    columns = {head: flow.curves[kind] for kind, head in heads.items() if kind in flow.curves}
    if flow.prediction:
        columns["W^ℓ alone"] = flow.prediction
    columns["source, from its end"] = flow.curves["source"]
    title = f"{flow.name}: mean norm of the gradient, {flow.sentences} pairs"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for head in ("distance", *columns):
        table.add_column(head, justify="right")
    longest = max(len(curve.norm) for curve in columns.values())
    for distance in (distance for distance in SHOWN if distance < longest):
        table.add_row(str(distance), *(_cell(curve, distance) for curve in columns.values()))
    return table


def _cell(curve: Curve, distance: int) -> str:
    if distance >= len(curve.norm):
        return ""
    return "overflow" if math.isinf(curve.norm[distance]) else f"{curve.norm[distance]:.2e}"
