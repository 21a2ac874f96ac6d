"""`seqloom inspect attention`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import Checkpoint, Device, Json, Run, Style
from seqloom.cli.output import print_json
from seqloom.errors import SeqloomError


def attention(
    run: Run,
    text: Annotated[str, typer.Argument(help="Source text.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Target text.", show_default="translation by the model"),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Layer to show, from 1; needs --head.")
    ] = None,
    head: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Head to show, from 1; needs --layer.")
    ] = None,
    mean: Annotated[bool, typer.Option("--mean", help="Show the mean of all layers and heads.")] = False,
    heads: Annotated[
        str | None, typer.Option(help="Dependency heads of the source words, for models that read trees.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the figure: .png, .svg, .pdf or .json.")
    ] = None,
    style: Style = "page",
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Show the attention from target to source tokens.

    Shows all layers and heads, one head, or the mean of all heads.

    Example:
      seqloom inspect attention runs/de-en "ein Haus" --out attention.png
    """
    from seqloom.cli.inspect_search import parse_tree
    from seqloom.inspect.attention import attention_text
    from seqloom.inspect.heads import HeadAttention, head_attention
    from seqloom.inspect.labels import readable
    from seqloom.run.load import load_decoder
    from seqloom.types import Head

    if (layer is None) != (head is None) or (mean and layer is not None):
        raise SeqloomError("--layer and --head belong together and exclude --mean.", "e.g. --layer 2 --head 1")
    check_figure(out, style, HeadAttention.formats)
    translator = load_decoder(run, checkpoint=checkpoint, device=device)
    attention = head_attention(translator, text, target, heads=parse_tree(heads, text))
    if attention is None:
        raise SeqloomError(
            "There is no attention to show.", "use a model with attention, and text that is not empty"
        )
    chosen = Head(layer - 1, head - 1) if layer is not None and head is not None else None
    shown = attention.one(chosen)
    if out and (chosen or mean):
        which = f"of layer {layer}, head {head}" if chosen else "(mean of all layers and heads)"
        write_figure(shown, out, style=style, title=f"Attention {which}: {readable(text)}")
    elif out:
        write_figure(attention, out, style=style, title=f"Attention of every layer and head: {readable(text)}")
    if json_:
        print_json(attention.to_dict(), compact=True)
    elif not out:
        print(attention_text(shown.source, shown.target, shown.weights.tolist()))
