"""`seqloom distill`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from seqloom.cli.options import Device, Engine, EnsembleSpace, Json, SetAny, Threads
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import require_known

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table


def distill(
    teachers: Annotated[
        list[Path], typer.Argument(metavar="TEACHER", help="Run directory; several runs form an ensemble.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the pairs, the student and the report.")],
    student: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Architecture of the student: see seqloom models.",
            show_default="6 encoder layers, 1 decoder layer",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Size of the student.", show_default="width of the teacher"),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(metavar="N", help="Training time of the student in minutes.", show_default="30 epochs"),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Additional source text to translate; repeatable."),
    ] = None,
    nbest: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of outputs to choose from.", show_default="the beam size"
        ),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Beam size of the teacher.", show_default="that of the run"),
    ] = None,
    similarity: Annotated[
        str, typer.Option(metavar="NAME", help="Similarity to the reference: bleu or chrf.")
    ] = "bleu",
    metrics: Annotated[
        str, typer.Option(metavar="NAMES", help="Metrics for the comparison, separated by commas.")
    ] = "bleu,chrf",
    set_: SetAny = None,
    ensemble_space: EnsembleSpace = "probability",
    device: Device = "auto",
    engine: Engine = "auto",
    threads: Threads = None,
    json_: Json = False,
) -> None:
    """Train a small, fast student on the outputs of a teacher.

    The teacher translates its training sources. Of the outputs of each line, the one most similar to the
    reference becomes the target. The student learns these pairs with the tokenizers of the teacher, and both
    are compared on the validation data of the teacher. If the work is interrupted, the same command continues
    it.

    Examples:
      seqloom distill runs/de-en --out runs/student --minutes 30
      seqloom distill runs/a runs/b --out runs/student --text mono.de
    """
    from seqloom.decode.mbr import UtilityName
    from seqloom.distillation.distill import Distillation
    from seqloom.distillation.student import StudentOptions
    from seqloom.distillation.translation import nbest_decoding
    from seqloom.evaluate.metrics import parse_metrics

    require_known("similarity", similarity, get_args(UtilityName))
    decoding = nbest_decoding(
        teachers,
        beam=beam,
        nbest=nbest,
        engine=engine,
        space=ensemble_space,
        device=device,
        threads=threads,
    )
    chosen = parse_metrics(metrics)
    work = Distillation(
        teachers,
        out,
        decoding,
        StudentOptions(student, size, minutes, chosen[0].name, set_ or (), device, threads),
        chosen,
        text or (),
        similarity,  # type: ignore[arg-type]  # checked above
    )
    report = work.run()
    if report is None:
        print("stopped: the same command continues the work")
    elif json_:
        print_json(report)
    else:
        _print_report(report, work.student_folder, work.report_file)


def _print_report(report: Mapping[str, Any], student: Path, file: Path) -> None:
    selection, systems = report["selection"], report["evaluation"]
    lines = selection["lines"]
    print(f"distilled: {selection['pairs']:,} of {lines['total']:,} lines")
    for reason, count in lines["counts"].items():
        print(f"  dropped: {count:,} {reason}")
    if selection["with_reference"]:
        print(
            f"  similarity to the reference: {selection['first_similarity']:.1f} of the best output, "
            f"{selection['selected_similarity']:.1f} of the selected one "
            f"({selection['not_first']:,} of {selection['with_reference']:,} lines are different)"
        )
    print_tables(_comparison(systems))
    print(f"report: {file}")
    print(f"to use the student: seqloom translate {student} FILE")


def _comparison(systems: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with one column per system."""
    names = [system["name"] for system in systems]
    table = new_table("", *names, right=names)
    rows: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "model": lambda system: str(system["model"]),
        "parameters": lambda system: f"{system['parameters']:,}",
        "engine, beam": lambda system: f"{system['engine']}, {system['beam']}",
        "sentences per second": lambda system: f"{system['sentences_per_second']:,.1f}",
    }
    for label, cell in rows.items():
        table.add_row(label, *map(cell, systems))
    for scores in zip(*(system["scores"] for system in systems), strict=True):
        cells = (f"{one['value']:.1f} [{one['low']:.1f}, {one['high']:.1f}]" for one in scores)
        table.add_row(scores[0]["label"], *cells)
    return table
