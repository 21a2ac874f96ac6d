"""`seqloom import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_model(
    model: Annotated[
        Path,
        typer.Argument(help="Folder of a Marian model in Hugging Face format, or an .arpa or .arpa.gz file."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Run directory to create.")],
    tokenizer: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="ARPA: run whose subword pieces are the words of the file."),
    ] = None,
) -> None:
    """Import a Marian (OPUS-MT) or ARPA model.

    The result is a run directory that translate, evaluate and the other commands can use.

    Examples:
      seqloom import opus-mt-en-de --out runs/opus
      seqloom import lm.arpa.gz --out runs/lm
    """
    if model.name.endswith((".arpa", ".arpa.gz")):
        _from_arpa(model, out, tokenizer)
    else:
        _from_marian(model, out)


def _from_arpa(file: Path, out: Path, tokenizer: Path | None) -> None:
    from seqloom.export.arpa import import_arpa

    imported = import_arpa(file, out, tokenizer=tokenizer)
    counts = " + ".join(f"{len(level):,}" for level in imported.ngrams.levels)
    print(f"imported: {out} ({counts} n-grams)")
    for note in imported.notes:
        print(f"  {note}")
    print(f"  seqloom score {out} FILE")
    print(f"  seqloom generate {out}")


def _from_marian(folder: Path, out: Path) -> None:
    from seqloom.export.marian.load import import_marian

    imported = import_marian(folder, out)
    print(f"imported: {out} ({imported.parameters:,} parameters, {imported.vocabulary:,} symbols)")
    for note in imported.notes:
        print(f"  {note}")
    print(f"  seqloom translate {out} FILE")
    print(f"  seqloom train pairs.tsv --config {out}/config.yaml --init-from {out} --out DIR")
