"""`seqloom translate`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.launch import ON_THIS_MACHINE, launch
from seqloom.cli.options import (
    Beam,
    Column,
    HeadsColumn,
    Mbr,
    MinP,
    Sample,
    Samples,
    Seed,
    Set,
    SourceColumn,
    Strategy,
    Temperature,
    TopK,
    TopP,
    Typical,
)
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:
    from seqloom.decode.translator import Capability, Translator
    from seqloom.types import Example, Hypothesis, Request

_LINES_AT_A_TIME = 5000  # enough to fill batches of like lengths, few enough to stream
_VOTING = "Several models"


def translate(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    file: Annotated[str, typer.Argument(help="Lines to translate, or a table; - is standard input.")] = "-",
    beam: Beam = None,
    nbest: Annotated[int | None, typer.Option(help="Outputs per line (default: 1).")] = None,
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
    set_: Set = None,
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
    """Translate text, one output line per input line. Suspicious outputs are counted at the end.

    With several outputs per line, e.g. by --nbest, each follows the number of its input line and its score.
    The score is that of the search; of --mbr it is the expected utility, of --sample log P.
    """
    from seqloom.cli.flags import print_flags
    from seqloom.cli.strategy import choose_strategy
    from seqloom.cli.trace import engine_to_trace, trace_searches
    from seqloom.config import strategy_options
    from seqloom.data.config import DataConfig
    from seqloom.data.readers import check_has_columns, read_source
    from seqloom.data.report import DataReport
    from seqloom.decode.distributed import distributed
    from seqloom.exchange.engines import load_translator
    from seqloom.outputs import check_can_write, output
    from seqloom.progress import counter
    from seqloom.team import joined

    if out:
        check_can_write(out)
    if alignment and not json_:
        raise SeqloomError("--alignment is part of the JSON output only.", "add --json")
    search, own = strategy_options(set_ or ())
    decoding = choose_strategy(locals(), named=strategy, options=own, search=search)
    if alignment and "sampling" in decoding.needs:
        raise SeqloomError("--alignment needs a search: samples have no alignment.", "use --beam")
    if require_column and ("sampling" in decoding.needs or trace):
        raise SeqloomError(
            "--require-column needs a search: words cannot be required of samples, nor traced.",
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
        engine = engine_to_trace(trace, engine, is_plain=decoding.is_beam_search and not ensemble)
    if engine == "auto" and not decoding.is_beam_search:
        engine = "torch"
    asked: dict[Capability, object] = {
        "alignment": alignment,
        "prefix": prefix_column,
        "required": require_column,
        "trees": heads_column,
    }
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
        loaded = load_translator(
            run,
            engine,
            ensemble=ensemble or (),
            space=ensemble_space,
            checkpoint=checkpoint,
            device=device,
            threads=threads,
            search={**search, **decoding.search_changes},
            needs=decoding.needs | {need for need, given in asked.items() if given},
            scores=json_,
        )
        with distributed(loaded, team) as translator:
            if translator is None:  # this process served the main one, which writes
                return
            if trace:
                examples = trace_searches(trace, translator, examples)
            ranked = decoding.outputs_per_line(translator.search) > 1
            at_a_time = 1 if flush else _LINES_AT_A_TIME
            with output(out) as stream, counter("translated") as advance:
                while chunk := list(islice(examples, at_a_time)):
                    requests = _requests(chunk, number + 1, translator, prefix_column, require_column)
                    outputs = decoding.translate(translator, requests, alignment=alignment, on_progress=advance)
                    for request, hypotheses in zip(requests, outputs, strict=True):
                        number += 1
                        counts.update(hypotheses[0].flags)
                        if json_:
                            lines = iter([_json(number, request.source, hypotheses, translator.engine)])
                        else:
                            lines = _plain(number, hypotheses, ranked=ranked)
                            joined_lines += any("\n" in one.text for one in hypotheses)
                        stream.write("".join(f"{text}\n" for text in lines))
                    if flush:
                        stream.flush()
    print_flags(counts, number)
    if joined_lines:
        print(
            f"note: line breaks in the outputs of {joined_lines:,} lines were replaced by spaces; --json keeps "
            "them",
            file=sys.stderr,
        )
    if report.lines:
        print(f"left empty: {report.summary()}; the first is line {report.lines[0].line}", file=sys.stderr)


def _requests(
    examples: Sequence[Example],
    first: int,
    translator: Translator,
    prefix_column: str | None,
    require_column: str | None,
) -> list[Request]:
    """Return a request per example; the line number, from `first`, is the key of its samples."""
    from seqloom.types import Request

    reads_trees = "trees" in translator.capabilities
    return [
        Request(
            example.source,
            prefix="" if prefix_column is None else example.target or "",
            required=() if require_column is None else _phrases(example.columns.get(require_column, "")),
            tree=example.heads if reads_trees else None,
            key=number,
        )
        for number, example in enumerate(examples, first)
    ]


def _phrases(cell: str) -> tuple[str, ...]:
    """Return the words and phrases of a cell, between semicolons."""
    return tuple(phrase for part in cell.split(";") if (phrase := part.strip()))


def _plain(number: int, hypotheses: list[Hypothesis], *, ranked: bool) -> Iterator[str]:
    for hypothesis in hypotheses:
        text = hypothesis.text.replace("\n", " ")
        yield f"{number}\t{hypothesis.score:.4f}\t{text}" if ranked else text


def _json(number: int, source: str, hypotheses: list[Hypothesis], engine: str) -> str:
    """Return one line of JSON; the score of an impossible output is null."""
    found = [asdict(one) for one in hypotheses]
    return json_text({"line": number, "source": source, "engine": engine, "hypotheses": found})
