"""`seqloom inspect attention`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.drawing import check_drawing, write_drawing
from seqloom.cli.options import Style
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text


def attention(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    text: Annotated[str, typer.Argument(help="What to translate.")],
    target: Annotated[str | None, typer.Option(help="A given answer; the model's own if left out.")] = None,
    layer: Annotated[int | None, typer.Option(min=1, help="Of one layer, with --head; counted from 1.")] = None,
    head: Annotated[int | None, typer.Option(min=1, help="Of one head of it.")] = None,
    mean: Annotated[bool, typer.Option("--mean", help="The mean of all layers and heads.")] = False,
    heads: Annotated[
        str | None, typer.Option(help="The heads of the words, for a model that reads trees.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write it: .png, .svg, .pdf or .json.")] = None,
    style: Style = "page",
    json_: Annotated[bool, typer.Option("--json", help="The weights by layer, head and target token.")] = False,
    checkpoint: Annotated[str | None, typer.Option(help="e.g. step-500; the best one if not given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Show where the decoder looked while it wrote: every layer and head, one of them, or their mean."""
    from seqloom.cli.inspect_search import parse_tree
    from seqloom.inspect.attention import attention_text
    from seqloom.inspect.heads import HeadAttention, head_attention
    from seqloom.inspect.labels import readable
    from seqloom.loading import load_decoder
    from seqloom.types import Head

    if (layer is None) != (head is None) or (mean and layer is not None):
        raise SeqloomError(
            "One head is named by --layer and --head together, and --mean is of all of them.",
            "e.g. --layer 2 --head 1",
        )
    check_drawing(out, style, HeadAttention.formats)
    translator = load_decoder(run, checkpoint=checkpoint, device=device)
    found = head_attention(translator, text, target, heads=parse_tree(heads, text))
    if found is None:
        raise SeqloomError(
            "There is no attention to show.", "use a model with attention, and a line that is not empty"
        )
    one = Head(layer - 1, head - 1) if layer is not None and head is not None else None
    shown = found.one(one)
    if out and (one or mean):
        which = f"of layer {layer}, head {head}" if one else "(mean of all layers and heads)"
        write_drawing(shown, out, style=style, title=f"Attention {which}: {readable(text)}")
    elif out:
        write_drawing(found, out, style=style, title=f"Attention of every layer and head: {readable(text)}")
    if json_:
        print(json_text(found.to_dict()))
    elif not out:
        print(attention_text(shown.source, shown.target, shown.weights.tolist()))
