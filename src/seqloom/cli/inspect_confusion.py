"""`seqloom inspect confusion`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import Checkpoint, Device, Json, Run, Style
from seqloom.cli.output import new_table, print_json, print_tables

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.evaluate.labels import Confusion


def confusion(
    run: Run,
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Tables of test pairs.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the matrix: .png, .svg, .pdf or .json.")
    ] = None,
    style: Style = "page",
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    json_: Json = False,
) -> None:
    """Count which labels are mistaken for which.

    Translates test data with a tagger or a classifier, compares the outputs word by word, and prints precision,
    recall and F1 of each label.

    Example:
      seqloom inspect confusion runs/tags test.tsv --out confusion.png
    """
    from seqloom.data.testset import read_testset
    from seqloom.decode.translator import requests_for
    from seqloom.evaluate.labels import Confusion
    from seqloom.inspect.confusion import ConfusionMatrix
    from seqloom.progress import counter
    from seqloom.run.directory import Run
    from seqloom.run.labels import unknown_labels
    from seqloom.run.load import load

    check_figure(out, style, ConfusionMatrix.formats)
    config = Run.open(run).config()
    test = read_testset(config.data, files)
    translator = load(run, checkpoint=checkpoint, device=device)
    requests = requests_for(translator, test.sources, test.heads)
    with counter(f"translated by {run}", total=len(requests)) as advance:
        outputs = [best[0].text for best in translator.translate(requests, on_progress=advance)]
    references = [given[0] for given in test.references]
    if note := unknown_labels(references, Run.open(run).tokenizers().target):
        print(f"note: {note}", file=sys.stderr)
    matrix = Confusion.of(outputs, references)
    if out:
        write_figure(ConfusionMatrix(matrix), out, style=style)
    if json_:
        print_json(matrix.to_dict())
    else:
        _print(matrix)


def _print(matrix: Confusion) -> None:
    headings = ("count", "precision", "recall", "F1")
    table = new_table("label", *headings, "most often mistaken for", right=headings)
    for score in matrix.scores():
        shares = (f"{100 * share:.1f}" for share in (score.precision, score.recall, score.f1))
        table.add_row(score.label, f"{score.occurrences:,}", *shares, score.mistaken_for)
    print_tables(table, f"accuracy {100 * matrix.accuracy:.1f} %, macro F1 {100 * matrix.macro_f1:.1f} %")
