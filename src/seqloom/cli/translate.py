"""`seqloom translate`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.launch import ON_THIS_MACHINE, launch
from seqloom.cli.options import Column, HeadsColumn, SourceColumn
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.types import Hypothesis

_LINES_AT_A_TIME = 5000  # enough to fill batches of like lengths, few enough to stream
_DRAWING, _VOTING = "Answers that are drawn", "Several models"


def translate(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    file: Annotated[str, typer.Argument(help="Lines to translate, or a table; - is standard input.")] = "-",
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept; 1 is greedy.")] = None,
    nbest: Annotated[int | None, typer.Option(help="Answers per line.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object per line, with scores.")] = False,
    alignment: Annotated[bool, typer.Option(help="Add the attention weights to the JSON.")] = False,
    source_column: SourceColumn = None,
    heads_column: HeadsColumn = None,
    format: Annotated[
        str, typer.Option(help="auto (by suffix), text, conllu, tsv, csv, jsonl or parquet.")
    ] = "auto",
    checkpoint: Annotated[str | None, typer.Option(help="e.g. step-500; the best one if not given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    engine: Annotated[
        str, typer.Option(help="torch, ctranslate2, or auto: the fastest that is exact.")
    ] = "auto",
    prefix_column: Annotated[
        str | None, typer.Option(help="Column of a table with the beginning of each output.")
    ] = None,
    require_column: Annotated[
        str | None, typer.Option(help="Column with the words or phrases of each output, separated by ;")
    ] = None,
    column: Column = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the search, e.g. search.no_repeat=3.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Processors to use; all if not given.")] = None,
    processes: Annotated[int, typer.Option(min=1, help=ON_THIS_MACHINE)] = 1,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    flush: Annotated[
        bool, typer.Option("--flush", help="Translate and write each line as soon as it is read.")
    ] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the search tree of every line: JSON.")] = None,
    ensemble: Annotated[
        list[Path] | None,
        typer.Option(help="Another run that votes on every token; may be repeated.", rich_help_panel=_VOTING),
    ] = None,
    ensemble_space: Annotated[
        str, typer.Option(help="What is averaged: probability or log.", rich_help_panel=_VOTING)
    ] = "probability",
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw answers, --nbest per line.", rich_help_panel=_DRAWING)
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 safer, above 1 wilder.", rich_help_panel=_DRAWING)
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="From the k most probable tokens.", rich_help_panel=_DRAWING)
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(help="From the fewest tokens of this mass.", rich_help_panel=_DRAWING)
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="From tokens of this x the best one's P.", rich_help_panel=_DRAWING)
    ] = None,
    typical: Annotated[
        float | None, typer.Option(help="From typical tokens of this mass.", rich_help_panel=_DRAWING)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Another seed, other answers.", rich_help_panel=_DRAWING)
    ] = None,
    mbr: Annotated[
        str | None,
        typer.Option(
            help="chrf or bleu: the answer most like all samples, or all that --beam finds.",
            rich_help_panel=_DRAWING,
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Samples for --mbr, 32 if not given.", rich_help_panel=_DRAWING)
    ] = None,
) -> None:
    """Translate lines: as many lines out as in, in order; answers that look wrong are counted at the end.

    With --nbest n there are up to n lines per line, each with the line's number, its score and its text.
    The score of --mbr is the expected utility, of --sample it is log P.
    """
    from seqloom.cli.strategy import choose_strategy, load_for
    from seqloom.cli.trace import engine_to_trace, trace_searches
    from seqloom.config import search_options
    from seqloom.data.config import DataConfig
    from seqloom.data.readers import check_has_columns, read_source
    from seqloom.data.report import DataReport
    from seqloom.decode.crew import crew
    from seqloom.decode.distrust import MEANING, flags
    from seqloom.exchange.engines import Wanted
    from seqloom.outputs import check_can_write, output
    from seqloom.progress import counter
    from seqloom.run import Run
    from seqloom.team import joined

    if out:
        check_can_write(out)
    search = search_options(set_ or ())
    strategy = choose_strategy(
        beam=beam,
        nbest=nbest,
        alignment=alignment,
        sample=sample,
        mbr=mbr,
        samples=samples,
        search=search,
        drawing={
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "typical": typical,
            "seed": seed,
        },
    )
    if require_column and (strategy.sampling or trace):
        raise SeqloomError(
            "--require-column is for a search: words cannot be required of samples, nor traced.",
            "leave out --trace, --sample, or --mbr without --beam",
        )
    if flush and (trace or processes > 1):
        raise SeqloomError(
            "--flush translates one line at a time; --trace and --processes need all of them first.",
            "leave out --flush, or --trace and --processes",
        )
    if processes > 1 and trace:
        raise SeqloomError("--trace follows the search of one process.", "leave out --processes")
    if processes > 1:
        launch(processes)
        return
    if trace:
        engine = engine_to_trace(trace, engine, is_plain=strategy.is_plain and not ensemble)
    wanted = Wanted(
        beam=beam,
        nbest=nbest if strategy.is_plain else None,
        alignment=alignment,
        prefixes=prefix_column is not None,
        required=require_column is not None,
        scores=json_,
        search=search,
    )
    report = DataReport()
    columns = {
        "source_column": column if source_column is None else source_column,
        "heads_column": heads_column,
        "prefix_column": prefix_column,
        "require_column": require_column,
    }
    options = DataConfig.checked({"format": format}, "data")
    check_has_columns(file, options.format, columns)
    examples = read_source(file, format=options.format, **columns, report=report)
    number, counts, joined_lines = 0, Counter[str](), 0
    with joined(device) as team:
        loaded, used = load_for(
            strategy,
            [run, *(ensemble or [])],
            engine,
            space=ensemble_space,
            checkpoint=checkpoint,
            device=device,
            threads=threads,
            wanted=wanted,
        )
        length_ratio = Run(run).length_ratio()
        with crew(loaded, team) as translator:
            if translator is None:  # this process has lent a hand, and another writes
                return
            if trace:
                examples = trace_searches(trace, translator, examples)
            at_a_time = 1 if flush else _LINES_AT_A_TIME
            with output(out) as stream, counter("translated") as advance:
                while chunk := list(islice(examples, at_a_time)):
                    answers = strategy.answers(
                        translator,
                        chunk,
                        first=number + 1,
                        prefixed=prefix_column is not None,
                        require_column=require_column,
                        alignment=alignment,
                        on_progress=advance,
                    )
                    for example, hypotheses in zip(chunk, answers, strict=True):
                        number += 1
                        found = [flags(example.source, one, length_ratio) for one in hypotheses]
                        counts.update(found[0])
                        if json_:
                            lines = iter([_json(number, example.source, hypotheses, used, found)])
                        else:
                            lines = _plain(number, hypotheses, ranked=nbest is not None and nbest > 1)
                            joined_lines += any("\n" in one.text for one in hypotheses)
                        stream.write("".join(f"{text}\n" for text in lines))
                    if flush:
                        stream.flush()
    for flag, meaning in MEANING.items():
        if counts[flag]:
            print(f"look at: {counts[flag]:,} of {number:,} answers ({flag}: {meaning})", file=sys.stderr)
    if joined_lines:
        print(
            f"note: line breaks in the outputs of {joined_lines:,} lines were replaced by spaces; --json keeps "
            "them",
            file=sys.stderr,
        )
    if report.lines:
        print(f"left empty: {report.summary()}; the first is line {report.lines[0].line}", file=sys.stderr)


def _plain(number: int, hypotheses: list[Hypothesis], *, ranked: bool) -> Iterator[str]:
    for hypothesis in hypotheses:
        text = hypothesis.text.replace("\n", " ")
        yield f"{number}\t{hypothesis.score:.4f}\t{text}" if ranked else text


def _json(
    number: int, source: str, hypotheses: list[Hypothesis], engine: str, found: Sequence[Sequence[str]]
) -> str:
    answers = [
        {**asdict(hypothesis), "flags": flags} for hypothesis, flags in zip(hypotheses, found, strict=True)
    ]
    line = {"line": number, "source": source, "engine": engine, "hypotheses": answers}
    return json.dumps(line, ensure_ascii=False)
