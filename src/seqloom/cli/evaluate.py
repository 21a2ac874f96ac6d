"""`seqloom evaluate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from seqloom.cli.drawing import check_drawing, write_drawing
from seqloom.cli.launch import ON_THIS_MACHINE, launch
from seqloom.cli.options import (
    Beam,
    HeadsColumn,
    Mbr,
    MinP,
    Sample,
    Samples,
    Seed,
    Set,
    Source,
    SourceColumn,
    Strategy,
    Style,
    Temperature,
    TopK,
    TopP,
    Typical,
)
from seqloom.strict_json import json_text

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.evaluate.report import Report


class Translated(NamedTuple):
    """The outputs of a run for the test data, and how they were made."""

    texts: list[str]
    settings: dict[str, Any]
    flags: Mapping[str, int] = {}  # how many outputs have each quality flag


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    files: Annotated[list[str] | None, typer.Argument(help="Tables of test pairs.")] = None,
    metrics: Annotated[
        str, typer.Option(help="bleu, chrf, ter, exact, exact:raw, error, per, wer, cer …")
    ] = "bleu,chrf",
    source: Source = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="A text file with a reference for each line of --source; may be repeated."),
    ] = None,
    source_column: SourceColumn = None,
    target_column: Annotated[
        str | None, typer.Option(help="Target column of a table; several references: 2,3,4.")
    ] = None,
    heads_column: HeadsColumn = None,
    group_by_source: Annotated[
        bool, typer.Option(help="Lines with the same source are references of one another.")
    ] = False,
    beam: Beam = None,
    checkpoint: Annotated[str | None, typer.Option(help="e.g. step-500; the best one if not given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    engine: Annotated[
        str, typer.Option(help="torch, ctranslate2, or auto: the fastest that is exact.")
    ] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="As many as are good here if not given.")] = None,
    processes: Annotated[int, typer.Option(min=1, help=ON_THIS_MACHINE)] = 1,
    set_: Set = None,
    compare: Annotated[
        list[Path] | None, typer.Option(help="Another run to measure on the same lines; may be repeated.")
    ] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option(help="A run that votes with RUN on every token; may be repeated.")
    ] = None,
    ensemble_space: Annotated[str, typer.Option(help="What is averaged: probability or log.")] = "probability",
    out: Annotated[Path | None, typer.Option(help="Write the translations to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the first metric by length: .png, .svg.")] = None,
    style: Style = "page",
    json_: Annotated[bool, typer.Option("--json", help="The whole report as JSON.")] = False,
    strategy: Strategy = None,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    typical: Typical = None,
    seed: Seed = None,
    mbr: Mbr = None,
    samples: Samples = None,
) -> None:
    """Translate test data and measure the outputs, with intervals and by sentence length."""
    from seqloom.cli.flags import print_flags
    from seqloom.cli.strategy import choose_strategy
    from seqloom.config import strategy_options
    from seqloom.decode.distributed import distributed
    from seqloom.decode.translator import requests_for
    from seqloom.evaluate.metrics import parse_metrics
    from seqloom.evaluate.report import as_tables, make_report
    from seqloom.evaluate.versus import as_table, versus
    from seqloom.exchange.engines import load_translator
    from seqloom.outputs import check_can_write, write_output
    from seqloom.progress import counter
    from seqloom.run import Run
    from seqloom.team import Team, joined
    from seqloom.testset import read_testset

    chosen = parse_metrics(metrics)
    check_drawing(plot, style)
    if out:
        check_can_write(out)
    config = Run.open(run).config()
    for other in compare or []:
        Run.open(other)  # a wrong name is told before anything is translated
    test = read_testset(
        config.data,
        files or [],
        source=source,
        targets=target or (),
        source_column=source_column,
        target_column=target_column,
        heads_column=heads_column,
        group_by_source=group_by_source,
    )

    search, own = strategy_options(set_ or ())
    decoding = choose_strategy(locals(), named=strategy, options=own, search=search)
    if engine == "auto" and not decoding.is_beam_search:
        engine = "torch"

    if processes > 1:
        launch(processes)
        return

    def translated(folder: Path, name: str | None, voters: Sequence[Path], team: Team) -> Translated:
        """Translate by a run, or by several that vote; a process that only serves the main one has no texts."""
        loaded = load_translator(
            folder,
            engine,
            ensemble=voters,
            space=ensemble_space if folder == run else "probability",
            checkpoint=name,
            device=device,
            threads=threads,
            search={**search, **decoding.search_changes},
            needs=decoding.needs | ({"trees"} if heads_column else set()),
            scores=False,
        )
        settings: dict[str, Any] = {"run": " + ".join(map(str, [folder, *voters])), "data": test.name}
        settings |= {"beam": loaded.search.beam} if decoding.is_beam_search else {"strategy": decoding.name}
        with distributed(loaded, team) as translator:
            if translator is None:
                return Translated([], settings)
            requests = requests_for(translator, test.sources, test.heads)
            requests = [replace(request, key=number) for number, request in enumerate(requests, 1)]
            with counter(f"translated by {folder}", total=len(requests)) as advance:
                found = decoding.translate(translator, requests, on_progress=advance)
        best = [many[0] for many in found]
        flags = Counter(flag for one in best for flag in one.flags)
        return Translated([one.text for one in best], {**settings, "engine": loaded.engine}, flags)

    def measured(given: Translated) -> Report:
        return make_report(test.sources, given.texts, test.references, chosen, settings=given.settings)

    with joined(device) as team:
        ours = translated(run, checkpoint, ensemble or (), team)
        rivals = [(other, translated(other, None, (), team)) for other in compare or []]
    if not team.leads:
        return
    texts, report = ours.texts, measured(ours)
    others = []
    for other, theirs in rivals:
        both = (report, measured(theirs))
        others.append(versus(str(other), test.sources, (texts, theirs.texts), test.references, chosen, both))
    for one in (ours, *(theirs for _, theirs in rivals)):
        print_flags(one.flags, len(one.texts), one.settings["run"])
    if out:
        write_output(out, "".join(text.replace("\n", " ") + "\n" for text in texts))
    if plot:
        systems = [(run, *(ensemble or ())), *((other,) for other in compare or ())]
        _draw(plot, style, systems, [report, *(other.report for other in others)])
    if json_:
        against = {"against": [other.as_dict() for other in others]} if others else {}
        print(json_text({**report.as_dict(), **against}, indent=2))
    else:
        from rich.console import Console

        console = Console(markup=False)  # a run may be called [b]
        console.print(as_tables(report))
        for result in others:
            console.print(as_table(result))


def _draw(plot: Path, style: str, systems: Sequence[Sequence[Path]], reports: Sequence[Report]) -> None:
    """Draw the first metric of every system, which is one run or several that vote, by length."""
    from seqloom.inspect.buckets import ScoresByLength
    from seqloom.inspect.looks import display_names
    from seqloom.run import Run

    models = [" + ".join(Run.open(folder).config().model.name for folder in folders) for folders in systems]
    names = display_names(models, [folders[0] for folders in systems])
    found = ScoresByLength({name: one.buckets for name, one in zip(names, reports, strict=True)})
    who = f" of {names[0]}" if len(names) == 1 else ""
    title = f"{reports[0].scores[0].label}{who} by length of the source, {reports[0].count:,} lines"
    write_drawing(found, plot, style=style, title=title)
