"""`seqloom inspect gates`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import Checkpoint, Device, Json, Run, Style
from seqloom.cli.output import new_table, print_json, print_tables

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.inspect.gates import LayerGates


def gates(
    run: Run,
    text: Annotated[str, typer.Argument(help="Source text, or the text of a language model.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Target text.", show_default="translation by the model"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the figure: .png, .svg, .pdf, .json or .html.")
    ] = None,
    style: Style = "page",
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Show the gates of an LSTM or GRU over time.

    Shows forget, input and output gates and the cell of an LSTM, or update and reset gates and the state of a
    GRU. The table has the means over all units, for the state the mean of |value|.

    Example:
      seqloom inspect gates runs/lstm "ein Haus" --out gates.png
    """
    from seqloom.inspect.gates import GateTrace, gate_trace
    from seqloom.run.load import load_run

    check_figure(out, style, GateTrace.formats)
    trace = gate_trace(load_run(run, checkpoint=checkpoint, device=device), text, target)
    if out:
        write_figure(trace, out, style=style)
    if json_:
        print_json(trace.to_dict(), compact=True)
    elif not out:
        print_tables(*map(_table, trace.layers))


def _table(layer: LayerGates) -> Table:
    """Return the mean gates of a layer, a row per token."""
    from seqloom.inspect.labels import labels

    names = [name if name in layer.gates else f"|{name}|" for name in layer.maps]
    table = new_table("token", *names, title=layer.name, right=names)
    means = [abs(values).mean(axis=1) for values in layer.maps.values()]
    for token, *row in zip(labels(layer.tokens), *means, strict=True):
        table.add_row(token, *(f"{value:.3f}" for value in row))
    return table
