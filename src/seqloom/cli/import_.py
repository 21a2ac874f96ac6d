"""`seqloom import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_(
    folder: Annotated[
        Path,
        typer.Argument(help="A Marian model in Hugging Face's format, as OPUS-MT has them, or an ARPA file."),
    ],
    out: Annotated[Path, typer.Option(help="The run directory to make.")],
    tokenizer: Annotated[
        Path | None, typer.Option(help="ARPA: a run whose tokenizer's pieces are the words of the file.")
    ] = None,
) -> None:
    """Turn a Marian model of OPUS-MT, or an n-gram model (.arpa, .arpa.gz), into a run directory."""
    if folder.name.endswith((".arpa", ".arpa.gz")):
        _from_arpa(folder, out, tokenizer)
    else:
        _from_marian(folder, out)


def _from_arpa(file: Path, out: Path, tokenizer: Path | None) -> None:
    from seqloom.exchange.arpa import import_arpa

    imported = import_arpa(file, out, tokenizer=tokenizer)
    counts = " + ".join(f"{len(level):,}" for level in imported.ngrams.levels)
    print(f"imported: {out} ({counts} n-grams)")
    for note in imported.notes:
        print(f"  {note}")
    print(f"  seqloom score {out} FILE")
    print(f"  seqloom generate {out}")


def _from_marian(folder: Path, out: Path) -> None:
    from seqloom.exchange.marian import import_marian

    imported = import_marian(folder, out)
    print(f"imported: {out} ({imported.parameters:,} parameters, {imported.vocabulary:,} symbols)")
    for note in imported.notes:
        print(f"  {note}")
    print(f"  seqloom translate {out} FILE")
    print(f"  seqloom train pairs.tsv --config {out}/config.yaml --init-from {out} --out DIR")
