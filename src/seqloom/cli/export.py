"""`seqloom export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_FORMATS = ("ctranslate2", "hf-marian", "arpa")


def export(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    out: Annotated[
        Path, typer.Option(help="The folder to write, which must not exist; for arpa a file, .gz packs it.")
    ],
    to: Annotated[str, typer.Option(help="The format: ctranslate2, hf-marian or arpa.")] = "ctranslate2",
    quantization: Annotated[
        str, typer.Option(help="ctranslate2: float32, int8, int16, float16, bfloat16 …")
    ] = "float32",
    checkpoint: Annotated[str | None, typer.Option(help="e.g. step-500; the best one if not given.")] = None,
    verify: Annotated[
        str | None, typer.Option(help="Sentences to compare answers on; else those of the run's data.")
    ] = None,
) -> None:
    """Write a run's model for another program, and check that it says there what it says here."""
    from seqloom.errors import unknown

    if to not in _FORMATS:
        raise unknown("format", to, _FORMATS)
    write = {"ctranslate2": _to_ctranslate2, "hf-marian": _to_marian, "arpa": _to_arpa}[to]
    lines = write(run, out, quantization, checkpoint, verify)
    print("\n".join(lines))


def _to_ctranslate2(
    run: Path, out: Path, quantization: str, checkpoint: str | None, verify: str | None
) -> list[str]:
    from seqloom.exchange.ctranslate2_export import export_ctranslate2

    report = export_ctranslate2(run, out, quantization=quantization, checkpoint=checkpoint, verify=verify)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    verified = report["verified"]
    return [
        f"exported: {out} ({quantization}, {size / 1e6:.1f} MB), compared with the run on {verified['on']}",
        *(_agreement(name, found) for name, found in verified["answers"].items()),
        f"  given targets: scores of tokens within {verified['token_score_difference']:.1e}",
        f"  plain CTranslate2: {_equal(verified['plain'])}, see {out / 'README.md'}",
        *(f"  {note}" for note in report["notes"]),
        f"  seqloom translate {out} FILE",
    ]


def _agreement(name: str, found: dict[str, Any]) -> str:
    return f"  {name}: {_equal(found)}, scores within {found['score_difference']:.1e}"


def _equal(found: dict[str, Any]) -> str:
    return f"{found['equal']} of {found['sentences']} answers equal"


def _to_marian(
    run: Path, out: Path, quantization: str, checkpoint: str | None, verify: str | None
) -> list[str]:
    from seqloom.errors import SeqloomError
    from seqloom.exchange.agreement import sentences
    from seqloom.exchange.marian_export import export_marian
    from seqloom.run import Run

    if quantization != "float32":
        raise SeqloomError(
            f"Marian models in this format are float32, not {quantization}.", "leave out --quantization"
        )
    opened = Run.open(run)
    lines, origin = sentences(opened.config(), opened.tokenizers().source, verify)
    exported = export_marian(run, out, lines, checkpoint=checkpoint)
    return [
        f"exported: {out}, compared with the run on {origin}",
        f"  {exported.sentences} sentences, logits within {exported.difference:.1e}",
        *(f"  {note}" for note in exported.notes),
    ]


def _to_arpa(run: Path, out: Path, quantization: str, checkpoint: str | None, verify: str | None) -> list[str]:
    from seqloom.exchange.arpa import export_arpa

    exported = export_arpa(run, out, checkpoint=checkpoint)
    counts = " + ".join(f"{len(level):,}" for level in exported.ngrams.levels)
    return [
        f"exported: {out} ({counts} n-grams), read again",
        f"  log probabilities and backoffs within {exported.difference:.1e}",
    ]
