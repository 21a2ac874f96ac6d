"""`seqloom inspect positions`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.inspect_mask import Model
from seqloom.cli.options import Json, SetConfig, Style
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.inspect.positions import PositionTables

_ROWS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # distances in the table


def positions(
    model: Model,
    length: Annotated[int, typer.Option(min=2, max=4096, metavar="N", help="Number of positions.")] = 32,
    text: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Sentence for positions in a tree.", show_default="an example"),
    ] = None,
    heads: Annotated[
        str | None, typer.Option(metavar="HEADS", help="Its dependency heads, one number per word; 0 = root.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the figure: .png, .svg, .pdf or .json.")
    ] = None,
    style: Style = "page",
    set_: SetConfig = None,
    json_: Json = False,
) -> None:
    """Show the position encoding of a Transformer.

    Shows the vectors p_i that are added to the input, their products p_i·p_j, and the bias that each distance
    adds to the attention scores. The table has the values for the last position and positions before it.

    Examples:
      seqloom inspect positions transformer --out positions.png
      seqloom inspect positions runs/mine
      seqloom inspect positions transformer --set model.positions=t5
    """
    from seqloom.inspect.positions import TREE, PositionTables, position_tables
    from seqloom.inspect.untrained import open_model

    check_figure(out, style, PositionTables.formats)
    if (text is None) != (heads is None):
        raise SeqloomError("A tree needs both --text and --heads.", "give both or neither")
    tree = TREE if text is None or heads is None else (text, heads)
    opened = open_model(model, set_ or ())
    if text is not None and not getattr(opened, "reads_trees", False):
        raise SeqloomError("This model has no positions in a tree.", "leave out --text and --heads")
    found = position_tables(opened, length=length, text=tree[0], heads=tree[1])
    if out:
        write_figure(found, out, style=style)
    if json_:
        print_json(found.to_dict(), compact=True)
    elif not out:
        print_tables(_table(found))


def _table(found: PositionTables) -> Table:
    """Return products and biases of the last position and the positions before it, by distance."""
    last = found.length - 1
    columns = {f"p·p, {name}": table[last] for name, table in found.products.items()}
    for name, bias in found.biases.items():
        heads = [1, len(bias)] if len(bias) > 1 else [1]
        columns |= {f"bias, {name}, head {head}": bias[head - 1, last] for head in heads}
    table = new_table("distance", *columns, right=("distance", *columns))
    for distance in (row for row in _ROWS if row <= last):
        table.add_row(str(distance), *(f"{row[last - distance]:.4f}" for row in columns.values()))
    return table
