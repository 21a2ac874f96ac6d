"""`seqloom export`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import Checkpoint, Run

_FORMATS = ("ctranslate2", "hf-marian", "arpa")


def export(
    run: Run,
    out: Annotated[
        Path,
        typer.Option(
            metavar="PATH", help="New folder to write; for arpa a file, compressed if it ends in .gz."
        ),
    ],
    to: Annotated[str, typer.Option(metavar="FORMAT", help="Format: ctranslate2, hf-marian or arpa.")] = (
        "ctranslate2"
    ),
    quantization: Annotated[
        str, typer.Option(metavar="TYPE", help="ctranslate2: float32, int8, int16, float16, bfloat16, ...")
    ] = "float32",
    checkpoint: Checkpoint = None,
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Sentences on which to compare the exported model with the run.",
            show_default="data of the run",
        ),
    ] = None,
) -> None:
    """Export a model to CTranslate2, Marian or ARPA.

    Compares the exported model with the run, and prints how far their outputs and scores agree.

    Examples:
      seqloom export runs/de-en --to ctranslate2 --out de-en.ct2
      seqloom export runs/de-en --to hf-marian --out de-en.marian
      seqloom export runs/ngram --to arpa --out lm.arpa.gz
    """
    from seqloom.errors import unknown

    if to not in _FORMATS:
        raise unknown("format", to, _FORMATS)
    write = {"ctranslate2": _to_ctranslate2, "hf-marian": _to_marian, "arpa": _to_arpa}[to]
    lines = write(run, out, quantization, checkpoint, verify)
    print("\n".join(lines))


def _to_ctranslate2(
    run: Path, out: Path, quantization: str, checkpoint: str | None, verify: str | None
) -> list[str]:
    from seqloom.export.ctranslate2.export import export_ctranslate2

    report = export_ctranslate2(run, out, quantization=quantization, checkpoint=checkpoint, verify=verify)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    verified = report["verified"]
    return [
        f"exported: {out} ({quantization}, {size / 1e6:.1f} MB), compared with the run on {verified['on']}",
        *(_agreement(name, result) for name, result in verified["answers"].items()),
        f"  forced decoding: token scores differ by at most {verified['token_score_difference']:.1e}",
        f"  plain CTranslate2: {_equal(verified['plain'])}, see {out / 'README.md'}",
        *(f"  {note}" for note in report["notes"]),
        f"  seqloom translate {out} FILE",
    ]


def _agreement(name: str, result: Mapping[str, Any]) -> str:
    return f"  {name}: {_equal(result)}, scores differ by at most {result['score_difference']:.1e}"


def _equal(result: Mapping[str, Any]) -> str:
    return f"{result['equal']} of {result['sentences']} outputs equal"


def _to_marian(
    run: Path, out: Path, quantization: str, checkpoint: str | None, verify: str | None
) -> list[str]:
    from seqloom.errors import SeqloomError
    from seqloom.export.marian.export import export_marian
    from seqloom.export.verify import sentences
    from seqloom.run.directory import Run

    if quantization != "float32":
        raise SeqloomError(
            f"hf-marian does not support --quantization {quantization}, only float32.",
            "leave out --quantization",
        )
    opened = Run.open(run)
    lines, origin = sentences(opened.config(), opened.tokenizers().source, verify)
    exported = export_marian(run, out, lines, checkpoint=checkpoint)
    return [
        f"exported: {out}, compared with the run on {origin}",
        f"  {exported.sentences} sentences: logits differ by at most {exported.difference:.1e}",
        *(f"  {note}" for note in exported.notes),
    ]


def _to_arpa(run: Path, out: Path, quantization: str, checkpoint: str | None, verify: str | None) -> list[str]:
    from seqloom.export.arpa import export_arpa

    exported = export_arpa(run, out, checkpoint=checkpoint)
    counts = " + ".join(f"{len(level):,}" for level in exported.ngrams.levels)
    return [
        f"exported: {out} ({counts} n-grams), compared with the run",
        f"  log probabilities and backoff weights differ by at most {exported.difference:.1e}",
    ]
