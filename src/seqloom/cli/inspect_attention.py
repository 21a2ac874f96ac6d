"""`seqloom inspect attention`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import Checkpoint, Device, Json, Run, Style
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError, unknown

_KINDS = ("cross", "encoder", "decoder")

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.inspect.heads import HeadAttention


def attention(
    run: Run,
    text: Annotated[str, typer.Argument(help="Source text.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Target text.", show_default="translation by the model"),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="cross (output to source), encoder or decoder (self-attention).",
            show_default="cross, or that of a language model",
        ),
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
        Path | None, typer.Option(metavar="FILE", help="File for the figure: .png, .svg, .pdf, .json or .html.")
    ] = None,
    style: Style = "page",
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Show attention weights, and the entropy of each head.

    Shows cross-attention or the self-attention of one side: all layers and heads, one head, or the mean of all
    heads. The entropy of a row is 0 if all weight is on one token, and log n if it is uniform over n tokens.

    Examples:
      seqloom inspect attention runs/de-en "ein Haus" --out attention.png
      seqloom inspect attention runs/de-en "ein Haus" --kind encoder --json
    """
    from seqloom.cli.inspect_search import parse_tree
    from seqloom.inspect.attention import attention_text
    from seqloom.inspect.heads import HeadAttention
    from seqloom.inspect.labels import readable
    from seqloom.inspect.viewed_run import ViewedRun
    from seqloom.inspect.views import AttentionOptions, attention_of
    from seqloom.types import Head

    if (layer is None) != (head is None) or (mean and layer is not None):
        raise SeqloomError("--layer and --head belong together and exclude --mean.", "e.g. --layer 2 --head 1")
    check_figure(out, style, HeadAttention.formats)
    if kind is not None and kind not in _KINDS:
        raise unknown("kind of attention", kind, _KINDS)
    viewed = ViewedRun(run, checkpoint=checkpoint, device=device)
    options = AttentionOptions.checked({"text": text, "target": target, "kind": kind}, "view")
    attention = attention_of(viewed, options, parse_tree(heads, text))
    chosen = Head(layer - 1, head - 1) if layer is not None and head is not None else None
    shown = attention.one(chosen)
    named = f"Attention ({attention.kind})"
    if out and out.suffix.lower() == ".html":
        write_figure(attention, out, style=style)
    elif out and (chosen or mean):
        which = f"of layer {layer}, head {head}" if chosen else "(mean of all layers and heads)"
        write_figure(shown, out, style=style, title=f"{named} {which}: {readable(text)}")
    elif out:
        write_figure(attention, out, style=style, title=f"{named} of every layer and head: {readable(text)}")
    if json_:
        print_json(attention.to_dict(), compact=True)
    elif not out:
        print(attention_text(shown.source, shown.target, shown.weights.tolist()) + "\n")
        print_tables(_entropies(attention))


def _entropies(attention: HeadAttention) -> Table:
    """Return the entropy of each head, a row per layer."""
    layers, heads = attention.entropy.shape
    names = [f"head {head + 1}" for head in range(heads)]
    bound = f"log {len(attention.source)} = {math.log(len(attention.source)):.2f}"
    table = new_table("layer", *names, title=f"Mean entropy in nats (uniform: {bound})", right=names)
    for layer in range(layers):
        table.add_row(str(layer + 1), *(f"{value:.2f}" for value in attention.entropy[layer]))
    return table
