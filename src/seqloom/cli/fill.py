"""`seqloom fill`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:
    from seqloom.decode.filling import Filled

_LINES_AT_A_TIME = 1000


def fill(
    run: Annotated[Path, typer.Argument(help="A run directory of a masked language model.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts with [MASK]; standard input if none is given.")
    ] = None,
    file: Annotated[str | None, typer.Option(help="A file of texts, one per line; - is stdin.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Tokens to show for every gap.")] = 5,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object per text.")] = False,
    checkpoint: Annotated[str | None, typer.Option(help="e.g. step-500; the best one if not given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Fill every [MASK] of a text with one token: the likeliest ones with their probabilities.

    Each text comes with the best of them filled in, then a line per gap.
    """
    from seqloom.data.lines import lines
    from seqloom.loading import load_filler
    from seqloom.progress import counter

    if file and texts:
        raise SeqloomError("Texts and a file of texts are given.", "leave one of them out")
    filler = load_filler(run, checkpoint=checkpoint, device=device)
    given = texts or list(lines(file or "-"))
    for number, text in enumerate(given, 1):
        filler.encode(text, number)  # a text without a gap is told before anything is printed
    with counter("filled", total=len(given)) as advance:
        for first in range(0, len(given), _LINES_AT_A_TIME):
            chunk = given[first : first + _LINES_AT_A_TIME]
            for text, filled in zip(chunk, filler.fill(chunk, top=top, on_progress=advance), strict=True):
                print(_json(text, filled) if json_ else _plain(filled))


def _plain(filled: Filled) -> str:
    """The filled text, and below it a line for every gap."""
    gaps = [
        "   ".join(f"{token} {100 * probability:.1f} %" for token, probability in candidates)
        for candidates in filled.gaps
    ]
    return "\n  ".join([filled.text, *gaps])


def _json(text: str, filled: Filled) -> str:
    gaps = [[candidate._asdict() for candidate in gap] for gap in filled.gaps]
    return json_text({"text": text, "filled": filled.text, "gaps": gaps})
