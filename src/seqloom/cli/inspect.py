"""`seqloom inspect`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.commands import Command, CommandGroup
from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.inspect_alignment import alignment
from seqloom.cli.inspect_attention import attention
from seqloom.cli.inspect_confusion import confusion
from seqloom.cli.inspect_gains import Depth, Gain, GainActivation, show_fresh
from seqloom.cli.inspect_gates import gates
from seqloom.cli.inspect_hmm import hmm
from seqloom.cli.inspect_influence import embeddings, influence, intervention, layers
from seqloom.cli.inspect_mask import mask
from seqloom.cli.inspect_positions import positions
from seqloom.cli.inspect_search import search
from seqloom.cli.inspect_stacks import stacks
from seqloom.cli.inspect_translation import alternatives, curves, translation
from seqloom.cli.options import Json, SetConfig, Style
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

_DISTANCES = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200)  # rows of the table

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table
    from torch import nn

    from seqloom.data.store import TokenStore
    from seqloom.inspect.gradients import Curve, GradientFlow

app = typer.Typer(cls=CommandGroup, help="Look inside a model: attention, search, gradients, ...")
app.command(cls=Command)(translation)
app.command(cls=Command)(alternatives)
app.command(cls=Command)(curves)
app.command(cls=Command)(attention)
app.command(cls=Command)(gates)
app.command(cls=Command)(influence)
app.command(cls=Command)(layers)
app.command(cls=Command)(intervention)
app.command(cls=Command)(embeddings)
app.command(cls=Command)(positions)
app.command(cls=Command)(mask)
app.command(cls=Command)(search)
app.command(cls=Command)(alignment)
app.command(cls=Command)(stacks)
app.command(cls=Command)(hmm)
app.command(cls=Command)(confusion)


@app.command(cls=Command)
def gradients(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN|CONFIG",
            help="Run directories (best checkpoint) or YAML files (random initialization).",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the curves: .png, .svg, .pdf or .json.")
    ] = None,
    style: Style = "page",
    batches: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of batches of 16 pairs, longest targets first.")
    ] = 2,
    max_distance: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="Largest distance, in tokens.")
    ] = 50,
    gain: Gain = None,
    activation: GainActivation = None,
    depth: Depth = None,
    set_: SetConfig = None,
    json_: Json = False,
) -> None:
    """Measure the gradient norm by distance in time.

    Reports the norm of the gradient of the loss at step i with respect to the states and inputs at step
    i - distance, on the validation data of each model.

    With --gain or --depth, it needs no data: it builds simple RNNs whose matrix W has eigenvalues of this
    size, or Transformers with and without residual connections and norms.

    Examples:
      seqloom inspect gradients runs/rnn runs/lstm --out gradients.png
      seqloom inspect gradients --gain 0.5,1,1.6
      seqloom inspect gradients --depth 24
    """
    from seqloom.inspect.gradient_picture import GradientComparison
    from seqloom.inspect.gradients import longest_batches, measure_gradients
    from seqloom.inspect.line_styles import display_names
    from seqloom.progress import counter

    check_figure(out, style, GradientComparison.formats)
    if show_fresh(models, gain, activation, depth, set_, out=out, style=style, json_=json_):
        return
    assert models is not None
    if set_ and all(path.is_dir() for path in models):
        raise SeqloomError("--set needs a YAML file; the options of a run are fixed.", "leave out --set")
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
        write_figure(comparison, out, style=style)
    if json_:
        print_json([flow.to_dict() for flow in flows])
    else:
        _print(flows)


def _open(path: Path, assignments: list[str]) -> tuple[str, nn.Module, TokenStore]:
    """Return name, model and validation data of a run, or of a configuration with random weights."""
    from seqloom.data.corpus import Corpus
    from seqloom.run.build import build_model, load_model
    from seqloom.run.config import compose
    from seqloom.run.data_settings import adapt_to_data
    from seqloom.run.directory import Run

    if path.is_dir():
        run = Run.open(path)
        model, _ = load_model(run)
        config = run.config()
        return (
            config.model.name,
            model,
            Corpus(config.data, config.text).reopen(run.data_record(), run.tokenizers()).valid,
        )
    if not path.is_file():
        raise SeqloomError(
            f"{path} is neither a run directory nor a configuration file.",
            "give the --out of seqloom train, or a YAML file",
        )
    config = adapt_to_data(compose(path, assignments=assignments))
    prepared = Corpus(config.data, config.text).prepare()
    return config.model.name, build_model(config, prepared.tokenizers), prepared.valid


def _print(flows: list[GradientFlow]) -> None:
    for flow in flows:
        print_tables(_table(flow))
        if flow.overflows:
            print(f"{flow.overflows:,} gradients overflow in double precision; the means exclude them.\n")
        if flow.spectral_radius is not None:
            print(f"largest |λ| of W: {flow.spectral_radius:.4f}\n")


def _table(flow: GradientFlow) -> Table:
    """Return the mean norms by distance, with a column for each curve."""
    heads = {"hidden": "hidden state", "cell": "cell", "target": "target input"}
    columns = {head: flow.curves[kind] for kind, head in heads.items() if kind in flow.curves}
    if flow.prediction:
        columns["W^ℓ alone"] = flow.prediction
    columns["source, from its end"] = flow.curves["source"]
    if "encoder" in flow.curves:
        columns["encoder state, from its end"] = flow.curves["encoder"]
    title = f"{flow.name}: mean norm of the gradient, {flow.sentences} pairs"
    table = new_table("distance", *columns, title=title, right=("distance", *columns))
    longest = max(len(curve.norm) for curve in columns.values())
    for distance in (distance for distance in _DISTANCES if distance < longest):
        table.add_row(str(distance), *(_cell(curve, distance) for curve in columns.values()))
    return table


def _cell(curve: Curve, distance: int) -> str:
    if distance >= len(curve.norm):
        return ""
    return "overflow" if math.isinf(curve.norm[distance]) else f"{curve.norm[distance]:.2e}"
