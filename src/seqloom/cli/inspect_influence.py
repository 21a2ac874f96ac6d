"""`seqloom inspect influence`, `layers`, `intervention` and `embeddings`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import Beam, Checkpoint, Device, Json, Run
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

Text = Annotated[str, typer.Argument(help="Source text.")]
Target = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Target text.", show_default="translation by the model")
]


def influence(
    run: Run,
    text: Text,
    target: Target = None,
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Show the influence of each source token by gradients.

    Gradient × input of each source token for each output token. For a model without attention, also how much of
    each source token is left in the vector that the decoder gets.

    Example:
      seqloom inspect influence runs/lstm "ein Haus"
    """
    given = {"text": text, "target": target, "checkpoint": checkpoint}
    found = _document(run, "influence", given, device, json_)
    if found is None:
        return
    table = new_table("source", *(["left"] if found["left"] else []), *found["target"])
    for number, token in enumerate(found["source"]):
        left = [f"{found['left'][number]:.3f}"] if found["left"] else []
        table.add_row(token, *left, *(f"{row[number]:+.3f}" for row in found["products"]))
    print_tables(table)


def layers(
    run: Run,
    text: Text,
    target: Target = None,
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Show the output tokens after each decoder layer.

    Rank of each output token if decoding stopped after each layer of a Transformer, and the token that would
    be first instead.

    Example:
      seqloom inspect layers runs/de-en "ein Haus"
    """
    given = {"text": text, "target": target, "checkpoint": checkpoint}
    found = _document(run, "layers", given, device, json_)
    if found is None:
        return
    table = new_table("layer", *found["target"])
    for one in found["layers"]:
        cells = zip(one["ranks"], one["best"], strict=True)
        table.add_row(str(one["layer"]), *(f"{rank} {'' if rank == 1 else best}" for rank, best in cells))
    print_tables(table)


def intervention(
    run: Run,
    text: Text,
    off: Annotated[
        list[str] | None,
        typer.Option(metavar="LAYER.HEAD", help="Head to switch off, from 1.1; repeatable."),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OUTPUT:SOURCE",
            help="Places of an output token and of the source token, from 1; repeatable.",
        ),
    ] = None,
    beam: Beam = None,
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Decode again with a changed attention to the source.

    --off switches a head of a Transformer off: it contributes nothing. --pin makes all heads attend to one
    source token at one place of the output.

    Example:
      seqloom inspect intervention runs/de-en "ein Haus" --off 2.1 --pin 1:2
    """
    given = {
        "text": text,
        "off": [_pair(one, ".", "--off") for one in off or ()],
        "pins": [_pair(one, ":", "--pin") for one in pin or ()],
        "beam": beam,
        "checkpoint": checkpoint,
    }
    found = _document(run, "intervention", given, device, json_)
    if found is None:
        return
    for name in ("free", "changed"):
        print(f"{name}: {found[name]['text']} (log P {found[name]['log_prob']:.3f})")


def embeddings(
    run: Run,
    token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="Token whose neighbours are listed, spelled as in outputs."),
    ] = None,
    side: Annotated[str, typer.Option(metavar="NAME", help="Vocabulary: source or target.")] = "source",
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Show nearest neighbours among the embeddings.

    With --json, also the projection of the embeddings to their first two principal components.

    Example:
      seqloom inspect embeddings runs/de-en --token "▁house" --side target
    """
    if token is None and not json_:
        raise SeqloomError("Give a token whose neighbours to list.", 'e.g. --token "▁house", or --json')
    given = {"side": side, "token": token, "checkpoint": checkpoint}
    found = _document(run, "embeddings", given, device, json_)
    if found is None:
        return
    table = new_table("token", "cosine", right=("cosine",))
    for one in found["neighbours"]:
        table.add_row(one["token"], f"{one['cosine']:.4f}")
    print_tables(table)


def _pair(text: str, separator: str, option: str) -> list[int]:
    """Return two numbers from 0; the command counts from 1."""
    parts = text.split(separator)
    if len(parts) != 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise SeqloomError(
            f"{option} must be two numbers from 1, got {text!r}.", f"e.g. {option} 2{separator}1"
        )
    return [int(part) - 1 for part in parts]


def _document(
    run: Path, view: str, given: Mapping[str, Any], device: str, json_: bool
) -> dict[str, Any] | None:
    """Return the document of a view; with --json, print it and return None."""
    from seqloom.inspect.viewed_run import ViewedRun
    from seqloom.inspect.views import document

    found = document(ViewedRun(run, device=device), view, given)
    if not json_:
        return found
    print_json(found, compact=True)
    return None
