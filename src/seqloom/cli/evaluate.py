"""`seqloom evaluate`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import (
    Beam,
    Checkpoint,
    Device,
    Engine,
    Ensemble,
    EnsembleSpace,
    Exact,
    Expand,
    HeadsColumn,
    Json,
    Languages,
    Mbr,
    MinP,
    Sample,
    Samples,
    Seed,
    SetSearch,
    Source,
    SourceColumn,
    Strategy,
    Style,
    TagsColumn,
    Temperature,
    Threads,
    TopK,
    TopP,
    Typical,
)
from seqloom.cli.options import Run as RunArgument
from seqloom.cli.output import print_flag_counts, print_json, print_tables
from seqloom.cli.processes import Processes, launch
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.evaluate.report import Report


class Translated(NamedTuple):
    """Outputs of a run for the test data, and the settings that produced them."""

    texts: list[str]
    settings: dict[str, Any]
    flags: Mapping[str, int] = {}  # number of outputs with each quality flag


def evaluate(
    context: typer.Context,
    run: RunArgument,
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Tables of test pairs.")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Metrics, separated by commas: bleu, chrf, ter, exact, exact:raw, error, per, wer, cer, "
            "accuracy, macro-f1, rouge1, rouge2, rougel, distinct1, distinct2, ...",
            show_default="bleu,chrf; for labels accuracy,macro-f1",
        ),
    ] = None,
    source: Source = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Text file with the reference of each line of --source; repeatable."),
    ] = None,
    source_column: SourceColumn = None,
    target_column: Annotated[
        str | None,
        typer.Option(
            help="Target column of a table: its header, or its number from 1; several references: 2,3,4."
        ),
    ] = None,
    languages: Languages = None,
    heads_column: HeadsColumn = None,
    tags_column: TagsColumn = None,
    group_by_source: Annotated[
        bool, typer.Option(help="Use the targets of lines with the same source as references of each other.")
    ] = False,
    beam: Beam = None,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    engine: Engine = "auto",
    threads: Threads = None,
    processes: Processes = 1,
    set_: SetSearch = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN", help="Run to evaluate on the same data and compare with; repeatable."),
    ] = None,
    ensemble: Ensemble = None,
    ensemble_space: EnsembleSpace = "probability",
    explain: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="LINE",
            help="Take BLEU apart for this line: matched n-grams, precisions, brevity penalty.",
        ),
    ] = None,
    contrast: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Score given texts instead of translating, and count how often the right one of two wins: "
            "TSV with the columns source, right, wrong, kind, distance.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File for the translations.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Figure of the first metric by sentence length: .png, .svg or .pdf."),
    ] = None,
    style: Style = "page",
    json_: Json = False,
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
    exact: Exact = False,
    expand: Expand = None,
) -> None:
    """Translate test data and score the output.

    Reports every metric with a confidence interval and by sentence length, and the significance of differences
    between runs.

    Examples:
      seqloom evaluate runs/de-en test.tsv --metrics bleu,chrf
      seqloom evaluate runs/de-en --source test.de --target test.en
      seqloom evaluate runs/new test.tsv --compare runs/old
      seqloom evaluate runs/lm --contrast agreement.tsv
    """
    if contrast is not None:
        from seqloom.cli.evaluate_contrast import evaluate_contrast, refuse_other_options

        refuse_other_options(context)
        evaluate_contrast(
            run,
            contrast,
            ensemble=ensemble or (),
            space=ensemble_space,
            checkpoint=checkpoint,
            device=device,
            as_json=json_,
        )
        return
    from seqloom.cli.strategy import choose_strategy
    from seqloom.data.testset import read_testset
    from seqloom.decode.distributed import distributed
    from seqloom.decode.select import load_translator
    from seqloom.decode.translator import requests_for
    from seqloom.distributed.process_group import ProcessGroup, init_process_group
    from seqloom.evaluate.explain import bleu_of, explain_bleu
    from seqloom.evaluate.metrics import parse_metrics, sentence_metric
    from seqloom.evaluate.report import as_tables, make_report
    from seqloom.evaluate.versus import as_table, versus
    from seqloom.languages import LanguagePair
    from seqloom.outputs import check_can_write, write_output
    from seqloom.progress import counter
    from seqloom.registry import architecture
    from seqloom.run.config import strategy_options
    from seqloom.run.directory import Run
    from seqloom.run.labels import unknown_labels

    config = Run.open(run).config()
    task = architecture(config.model.name).task
    chosen = parse_metrics(task.metrics if metrics is None else metrics)
    for metric in chosen if compare else ():
        sentence_metric(metric)  # raises before anything is translated
    check_figure(plot, style)
    if out:
        check_can_write(out)
    for other in compare or []:
        Run.open(other)  # raises for a wrong name before anything is translated
    test = read_testset(
        config.data,
        files or [],
        source=source,
        targets=target or (),
        source_column=source_column,
        target_column=target_column,
        heads_column=heads_column,
        tags_column=tags_column,
        languages=LanguagePair.parse(languages) if languages else None,
        group_by_source=group_by_source,
    )

    if task.mismatch:
        flat = [text for given in test.references for text in given]
        if note := unknown_labels(flat, Run.open(run).tokenizers().target):
            print(f"note: {note}", file=sys.stderr)
    if test.skipped:
        print(f"{test.name}: {test.skipped}", file=sys.stderr)
    explained = bleu_of(chosen) if explain else None
    if explain and explain > len(test.sources):
        raise SeqloomError(
            f"--explain {explain}: {test.name} has only {len(test.sources):,} lines.", "choose a smaller number"
        )
    search, strategy_settings = strategy_options(set_ or ())
    decoding = choose_strategy(locals(), named=strategy, options=strategy_settings, search=search)
    if engine == "auto" and not decoding.is_beam_search:
        engine = "torch"

    if processes > 1:
        launch(processes)
        return

    def translate(
        group: ProcessGroup, folder: Path, others: Sequence[Path] = (), checkpoint: str | None = None
    ) -> Translated:
        """Translate with a run or an ensemble; the result is empty in worker processes."""
        loaded = load_translator(
            folder,
            engine,
            ensemble=others,
            space=ensemble_space if folder == run else "probability",
            checkpoint=checkpoint,
            device=device,
            threads=threads,
            search={**search, **decoding.search_changes},
            needs=decoding.needs | ({"trees"} if heads_column else set()),
            scores=False,
        )
        settings: dict[str, Any] = {"run": " + ".join(map(str, [folder, *others])), "data": test.name}
        settings |= {"beam": loaded.search.beam} if decoding.is_beam_search else {"strategy": decoding.name}
        with distributed(loaded, group) as translator:
            if translator is None:
                return Translated([], settings)
            requests = requests_for(translator, test.sources, test.heads)
            requests = [replace(request, key=number) for number, request in enumerate(requests, 1)]
            with counter(f"translated by {folder}", total=len(requests)) as advance:
                outputs = decoding.translate(translator, requests, on_progress=advance)
        best = [hypotheses[0] for hypotheses in outputs]
        flags = Counter(flag for hypothesis in best for flag in hypothesis.flags)
        texts = [hypothesis.text for hypothesis in best]
        return Translated(texts, {**settings, "engine": loaded.engine}, flags)

    with init_process_group(device) as group:
        systems = [translate(group, run, ensemble or (), checkpoint)]
        systems += [translate(group, other) for other in compare or ()]
    if not group.is_main:
        return
    reports = [
        make_report(test.sources, system.texts, test.references, chosen, settings=system.settings)
        for system in systems
    ]
    comparisons = [
        versus(
            str(other),
            test.sources,
            (systems[0].texts, system.texts),
            test.references,
            chosen,
            (reports[0], report),
        )
        for other, system, report in zip(compare or (), systems[1:], reports[1:], strict=True)
    ]
    explanation = None
    if explain and explained:
        explanation = explain_bleu(explained, explain, systems[0].texts, test.references)
    for system in systems:
        print_flag_counts(system.flags, len(system.texts), system.settings["run"])
    if out:
        write_output(out, "".join(text.replace("\n", " ") + "\n" for text in systems[0].texts))
    if plot:
        _draw(plot, style, [(run, *(ensemble or ())), *((other,) for other in compare or ())], reports)
    if json_:
        against = {"against": [comparison.as_dict() for comparison in comparisons]} if comparisons else {}
        parts = {"explain": explanation.as_dict()} if explanation else {}
        print_json({**reports[0].as_dict(), **against, **parts})
    else:
        print_tables(as_tables(reports[0]), *map(as_table, comparisons))
        if explanation:
            print(explanation.to_text())


def _draw(plot: Path, style: str, systems: Sequence[Sequence[Path]], reports: Sequence[Report]) -> None:
    """Draw the first metric of each system (a run or an ensemble) by source length."""
    from seqloom.inspect.buckets import ScoresByLength
    from seqloom.inspect.line_styles import display_names
    from seqloom.run.directory import Run

    models = [" + ".join(Run.open(folder).config().model.name for folder in folders) for folders in systems]
    names = display_names(models, [folders[0] for folders in systems])
    figure = ScoresByLength({name: report.buckets for name, report in zip(names, reports, strict=True)})
    of_model = f" of {names[0]}" if len(names) == 1 else ""
    title = f"{reports[0].scores[0].label}{of_model} by length of the source, {reports[0].count:,} lines"
    write_figure(figure, plot, style=style, title=title)
