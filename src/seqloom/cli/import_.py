"""`seqloom import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_(
    folder: Annotated[
        Path, typer.Argument(help="A Marian model in Hugging Face's format, as OPUS-MT has them.")
    ],
    out: Annotated[Path, typer.Option(help="The run directory to make.")],
) -> None:
    """Turn a Marian model of OPUS-MT into a run directory: it translates, scores and can be trained on."""
    from seqloom.exchange.marian import import_marian

    imported = import_marian(folder, out)
    print(f"imported: {out} ({imported.parameters:,} parameters, {imported.vocabulary:,} symbols)")
    for note in imported.notes:
        print(f"  {note}")
    print(f"  seqloom translate {out} FILE")
    print(f"  seqloom train pairs.tsv --config {out}/config.yaml --init-from {out} --out DIR")
