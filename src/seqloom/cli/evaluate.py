"""`seqloom evaluate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from seqloom.decode.ensemble import Space


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    files: Annotated[list[str] | None, typer.Argument(help="Tables of test pairs.")] = None,
    metrics: Annotated[str, typer.Option(help="bleu, chrf, ter, exact, error, per, wer, cer …")] = "bleu,chrf",
    source: Annotated[str | None, typer.Option(help="A file of sources, one per line.")] = None,
    target: Annotated[str | None, typer.Option(help="The file of their references.")] = None,
    source_column: Annotated[str | None, typer.Option(help="A name or a number.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Several references: 2,3,4.")] = None,
    heads_column: Annotated[str | None, typer.Option(help="Of trees, for a model that reads them.")] = None,
    group_by_source: Annotated[
        bool, typer.Option(help="Lines with the same source are references of one another.")
    ] = False,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept; 1 is greedy.")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="e.g. step-500; the best one if not given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    engine: Annotated[
        str, typer.Option(help="torch, ctranslate2, or auto: the fastest that is exact.")
    ] = "auto",
    compare: Annotated[
        list[Path] | None, typer.Option(help="Another run to measure on the same lines; may be repeated.")
    ] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option(help="A run that votes with RUN on every token; may be repeated.")
    ] = None,
    ensemble_space: Annotated[str, typer.Option(help="What is averaged: probability or log.")] = "probability",
    out: Annotated[Path | None, typer.Option(help="Write the translations to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the first metric by length: .png, .svg.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="The whole report as JSON.")] = False,
) -> None:
    """Translate test data and measure the answers, with intervals and by sentence length."""
    from seqloom.evaluate.metrics import parse_metrics
    from seqloom.evaluate.report import Report, as_tables, make_report
    from seqloom.evaluate.versus import as_table, versus
    from seqloom.exchange.engines import Wanted, load_translator
    from seqloom.files import check_can_write, write_atomically
    from seqloom.progress import counter
    from seqloom.run import Run, load_ensemble
    from seqloom.testset import read_testset

    chosen = parse_metrics(metrics)
    for path in (out, plot):
        if path:
            check_can_write(path)
    config = Run.open(run).config()
    for other in compare or []:
        Run.open(other)  # a wrong name is told before anything is translated
    test = read_testset(
        config.data,
        files or [],
        source=source,
        target=target,
        source_column=source_column,
        target_column=target_column,
        heads_column=heads_column,
        group_by_source=group_by_source,
    )

    wanted = Wanted(beam=beam, scores=False)

    def answers(folder: Path, name: str | None, voters: Sequence[Path] = ()) -> list[str]:
        translator = (
            load_ensemble(
                [folder, *voters],
                checkpoints=[name, *[None] * len(voters)],
                space=cast("Space", ensemble_space),
                device=device,
            )
            if voters
            else load_translator(folder, engine, checkpoint=name, device=device, wanted=wanted).translator
        )
        with counter(f"translated by {folder}", total=len(test.sources)) as advance:
            found = translator.translate(test.sources, heads=test.heads, beam=beam, on_progress=advance)
        return [hypotheses[0].text for hypotheses in found]

    def report_on(folder: Path, texts: list[str], voters: Sequence[Path] = ()) -> Report:
        width = beam or Run.open(folder).config().search.beam
        settings = {"run": " + ".join(map(str, (folder, *voters))), "data": test.name, "beam": width}
        return make_report(test.sources, texts, test.references, chosen, settings=settings)

    texts = answers(run, checkpoint, ensemble or ())
    report = report_on(run, texts, ensemble or ())
    others = []
    for other in compare or []:
        theirs = answers(other, None)
        reports = (report, report_on(other, theirs))
        others.append(versus(str(other), test.sources, (texts, theirs), test.references, chosen, reports))
    if out:
        write_atomically(out, "".join(text.replace("\n", " ") + "\n" for text in texts))
    if plot:
        from seqloom.inspect.buckets import bucket_picture

        systems = {str(run): report.buckets, **{other.name: other.report.buckets for other in others}}
        title = f"{run} on {report.count:,} lines" if not others else f"{report.count:,} lines"
        bucket_picture(systems, plot, title=title)
    if json_:
        against = {"against": [other.as_dict() for other in others]} if others else {}
        print(json.dumps({**report.as_dict(), **against}, indent=2, ensure_ascii=False))
    else:
        from rich.console import Console

        console = Console()
        console.print(as_tables(report))
        for result in others:
            console.print(as_table(result))
