"""`seqloom fill`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import Checkpoint, Device
from seqloom.cli.output import write_json_line
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.decode.mask_filling import Filled

_CHUNK_TEXTS = 1000


def fill(
    run: Annotated[Path, typer.Argument(help="Run directory of a masked language model.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts that contain [MASK].", show_default="standard input"),
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with one text per line; - is standard input.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Number of tokens to list for each gap.")] = 5,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object per text.")] = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:
    """Fill [MASK] gaps with a masked language model.

    Prints each text with the most probable token in every gap, then one line per gap with the most probable
    tokens and their probabilities.

    Example:
      seqloom fill runs/mlm "the [MASK] sat on the mat" --top 3
    """
    from seqloom.data.lines import lines
    from seqloom.progress import counter
    from seqloom.run.load import load_filler

    if file and texts:
        raise SeqloomError("Give texts or --file, not both.", "leave one of them out")
    filler = load_filler(run, checkpoint=checkpoint, device=device)
    given = texts or list(lines(file or "-"))
    for number, text in enumerate(given, 1):
        filler.encode(text, number)  # fails for a text without a gap before anything is printed
    with counter("filled", total=len(given)) as advance:
        for first in range(0, len(given), _CHUNK_TEXTS):
            chunk = given[first : first + _CHUNK_TEXTS]
            for text, filled in zip(chunk, filler.fill(chunk, top=top, on_progress=advance), strict=True):
                if json_:
                    write_json_line(sys.stdout, _as_dict(text, filled))
                else:
                    print(_plain(filled))


def _plain(filled: Filled) -> str:
    """Return the filled text, followed by a line for each gap."""
    gaps = [
        "   ".join(f"{token} {100 * probability:.1f} %" for token, probability in candidates)
        for candidates in filled.gaps
    ]
    return "\n  ".join([filled.text, *gaps])


def _as_dict(text: str, filled: Filled) -> dict[str, Any]:
    gaps = [[candidate._asdict() for candidate in gap] for gap in filled.gaps]
    return {"text": text, "filled": filled.text, "gaps": gaps}
