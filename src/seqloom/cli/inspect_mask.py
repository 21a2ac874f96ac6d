"""`seqloom inspect mask`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import Json, SetConfig, Style
from seqloom.cli.output import new_table, print_json, print_tables

Model = Annotated[
    Path,
    typer.Argument(
        metavar="RUN|CONFIG", help="Run directory, YAML file, or name of a model (see seqloom models)."
    ),
]


def mask(
    model: Model,
    length: Annotated[
        int | None,
        typer.Option(min=2, max=4096, metavar="N", help="Number of positions.", show_default="24, or 8 blocks"),
    ] = None,
    padding: Annotated[int, typer.Option(min=0, metavar="N", help="Positions of padding in the source.")] = 0,
    prefix: Annotated[
        int, typer.Option(min=1, metavar="N", help="Positions of the source of a language model.")
    ] = 8,
    layer: Annotated[int, typer.Option(min=1, metavar="N", help="Layer, from 1.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the figure: .png, .svg, .pdf or .json.")
    ] = None,
    style: Style = "page",
    set_: SetConfig = None,
    json_: Json = False,
) -> None:
    """Show which positions attend to which.

    Shows causal, prefix and padding masks, windows, the near, global and random blocks of BigBird, and the
    projection of Linformer, as the model applies them to random tokens.

    Examples:
      seqloom inspect mask transformer --padding 4 --out mask.png
      seqloom inspect mask transformer-bigbird --length 512 --out bigbird.png
    """
    from seqloom.inspect.masks import MaskPicture, mask_picture
    from seqloom.inspect.untrained import open_model

    check_figure(out, style, MaskPicture.formats)
    opened = open_model(model, set_ or ())
    found = mask_picture(opened, length=length, padding=padding, prefix=prefix, layer=layer)
    if out:
        write_figure(found, out, style=style)
    if json_:
        print_json(found.to_dict(), compact=True)
    elif not out:
        table = new_table(
            "attention", "positions", "visible pairs", "of these", right=("positions", "visible pairs")
        )
        for name, one in found.masks.items():
            shares = [f"{label} {one.share(code):.1%}" for code, label in one.names().items() if code]
            note = "" if one.projection is None else f"; {len(one.projection)} projected keys"
            table.add_row(name, f"{len(one.codes):,}", f"{one.share():.1%}", ", ".join(shares) + note)
        print_tables(table)
