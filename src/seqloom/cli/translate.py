"""`seqloom translate`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import (
    Beam,
    Checkpoint,
    Column,
    Device,
    Engine,
    Ensemble,
    EnsembleSpace,
    Exact,
    Expand,
    GlossaryFile,
    HeadsColumn,
    Languages,
    Mbr,
    MemoryFile,
    MinP,
    OutputFile,
    Overwrite,
    Protect,
    ReportFile,
    Run,
    Sample,
    Samples,
    Seed,
    SetSearch,
    SourceColumn,
    SplitOption,
    Strategy,
    TagsColumn,
    Temperature,
    Threads,
    TopK,
    TopP,
    Typical,
)
from seqloom.cli.output import print_flag_counts, write_json_line
from seqloom.cli.processes import Processes, launch
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.data.report import DataReport
    from seqloom.decode.translator import Capability, Translator
    from seqloom.types import Example, Hypothesis, Request

_CHUNK_LINES = 5000  # enough for batches of similar length, few enough to stream


def translate(
    run: Run,
    file: Annotated[
        str,
        typer.Argument(
            help="Text file with one line per sentence, a table, or a document; - is standard input."
        ),
    ] = "-",
    beam: Beam = None,
    nbest: Annotated[
        int | None, typer.Option(metavar="N", help="Number of outputs per line.", show_default="1")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, with scores.")] = False,
    alignment: Annotated[bool, typer.Option(help="Include the attention weights in the JSON.")] = False,
    source_column: SourceColumn = None,
    heads_column: HeadsColumn = None,
    tags_column: TagsColumn = None,
    languages: Languages = None,
    format: Annotated[
        str,
        typer.Option(
            help="Input format: auto (by suffix), text (lines), conllu, tsv, csv, jsonl, parquet, tmx, ...; "
            "for documents paragraphs (plain text), markdown, subtitles, po, json, html, xliff, docx or odt."
        ),
    ] = "auto",
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    engine: Engine = "auto",
    prefix_column: Annotated[str | None, typer.Option(help="Column with the beginning of each output.")] = None,
    require_column: Annotated[
        str | None,
        typer.Option(help="Column with words or phrases that each output must contain, separated by ;"),
    ] = None,
    column: Column = None,
    set_: SetSearch = None,
    threads: Threads = None,
    processes: Processes = 1,
    out: OutputFile = None,
    flush: Annotated[
        bool, typer.Option("--flush", help="Translate and write each line as soon as it is read.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON file for the search tree of each line.")
    ] = None,
    ensemble: Ensemble = None,
    ensemble_space: EnsembleSpace = "probability",
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
    overwrite: Overwrite = False,
    glossary: GlossaryFile = None,
    memory: MemoryFile = None,
    report_file: ReportFile = None,
    protect: Protect = None,
    split: SplitOption = None,
) -> None:
    """Translate text line by line, or a document.

    Suspicious outputs are counted at the end. With several outputs per line (--nbest), each output follows the
    number of its input line and its score: the search score, the expected utility for --mbr, or the
    log-probability for --sample.

    A document (Markdown, HTML, SRT, VTT, PO, XLIFF, JSON, DOCX or ODT) is translated if --out is given, or its
    --format. Everything but its text stays unchanged.

    Examples:
      seqloom translate runs/de-en test.de --out test.en
      echo "ein kleines Haus" | seqloom translate runs/de-en --nbest 3
      seqloom translate runs/a test.de --ensemble runs/b --beam 8
      seqloom translate runs/de-en test.de --mbr chrf --samples 64
      seqloom translate runs/en-de django.po --out de.po --glossary terms.tsv
    """
    given = locals()
    from seqloom.cli.strategy import choose_strategy
    from seqloom.cli.trace import engine_to_trace, trace_searches
    from seqloom.cli.translate_document import check_no_document_options, document_format, translate_file
    from seqloom.data.config import DataConfig
    from seqloom.data.context import with_context
    from seqloom.data.readers import check_has_columns, is_table, read_source
    from seqloom.data.report import DataReport
    from seqloom.decode.distributed import distributed
    from seqloom.decode.select import load_translator
    from seqloom.distributed.process_group import init_process_group
    from seqloom.outputs import check_can_write, output
    from seqloom.progress import counter
    from seqloom.run.config import strategy_options
    from seqloom.run.directory import Run

    if out:
        check_can_write(out)
    search, strategy_settings = strategy_options(set_ or ())
    if document := document_format(file, format, out):
        translate_file(document, given, search, strategy_settings)
        return
    check_no_document_options(given)
    decoding = choose_strategy(given, named=strategy, options=strategy_settings, search=search)
    _check_combination(given, samples="sampling" in decoding.needs)
    if processes > 1:
        launch(processes)
        return
    if trace:
        engine = engine_to_trace(trace, engine, is_plain=decoding.is_beam_search and not ensemble)
    if engine == "auto" and not decoding.is_beam_search:
        engine = "torch"
    capabilities: dict[Capability, object] = {
        "alignment": alignment,
        "prefix": prefix_column,
        "required": require_column,
        "trees": heads_column,
    }
    report = DataReport()
    columns: dict[str, str | None] = {
        "source_column": column if source_column is None else source_column,
        "heads_column": heads_column,
        "tags_column": tags_column,
        "prefix_column": prefix_column,
        "require_column": require_column,
    }
    options = DataConfig.checked({"format": format, "languages": languages}, "data")
    check_has_columns(file, options.format, columns)
    data = Run.open(run).config().data
    if tags_column is None and is_table(file, options.format):
        columns["tags_column"] = data.tags_column
    pair = options.languages or data.languages
    examples = read_source(file, format=options.format, languages=pair, **columns, report=report)
    examples = with_context(examples, data.context, report)
    summary = _Summary()
    with init_process_group(device) as group:
        loaded = load_translator(
            run,
            engine,
            ensemble=ensemble or (),
            space=ensemble_space,
            checkpoint=checkpoint,
            device=device,
            threads=threads,
            search={**search, **decoding.search_changes},
            needs=decoding.needs | {need for need, option in capabilities.items() if option},
            scores=json_,
        )
        with distributed(loaded, group) as translator:
            if translator is None:  # a worker; the main process writes the output
                return
            if trace:
                examples = trace_searches(trace, translator, examples)
            ranked = decoding.outputs_per_line(translator.search) > 1
            summary.is_exact = decoding.is_exact
            with output(out) as stream, counter("translated") as advance:
                for chunk in _chunks(examples, 1 if flush else _CHUNK_LINES):
                    requests = _requests(chunk, summary.lines + 1, translator, columns)
                    outputs = decoding.translate(translator, requests, alignment=alignment, on_progress=advance)
                    for request, hypotheses in zip(requests, outputs, strict=True):
                        summary.add(hypotheses)
                        if json_:
                            line = _as_dict(summary.lines, request.source, hypotheses, translator.engine)
                            write_json_line(stream, line)
                        else:
                            stream.writelines(_plain(summary.lines, hypotheses, ranked=ranked))
                    if flush:
                        stream.flush()
    summary.print(report, keeps_line_breaks=json_)


@dataclass
class _Summary:
    """Summary that is printed on standard error after the last line."""

    lines: int = 0
    with_line_breaks: int = 0
    is_exact: bool = False
    flags: Counter[str] = field(default_factory=Counter)

    def add(self, hypotheses: Sequence[Hypothesis]) -> None:
        self.lines += 1
        self.with_line_breaks += any("\n" in hypothesis.text for hypothesis in hypotheses)
        self.flags.update(hypotheses[0].flags)

    def print(self, report: DataReport, *, keeps_line_breaks: bool) -> None:
        print_flag_counts(self.flags, self.lines)
        if self.is_exact:
            proved = self.lines - self.flags["unproven"]
            print(f"proved to be the best output: {proved:,} of {self.lines:,} lines", file=sys.stderr)
        if self.with_line_breaks and not keeps_line_breaks:
            note = f"line breaks in {self.with_line_breaks:,} outputs are printed as spaces; --json keeps them"
            print(f"note: {note}", file=sys.stderr)
        if report.lines:
            print(f"empty output: {report.summary()}; first: line {report.lines[0].line}", file=sys.stderr)


def _check_combination(options: Mapping[str, Any], *, samples: bool) -> None:
    """Raise an error if options exclude each other; `samples`: whether outputs are sampled."""
    trace, several = options["trace"], options["processes"] > 1
    if options["alignment"] and not options["json_"]:
        raise SeqloomError("--alignment needs --json.", "add --json")
    if options["alignment"] and samples:
        raise SeqloomError("--alignment needs a beam search; samples have no alignment.", "use --beam")
    if options["require_column"] and (samples or trace):
        raise SeqloomError(
            "--require-column needs a beam search without --trace.",
            "leave out --trace, --sample, and --mbr without --beam",
        )
    if options["flush"] and (trace or several):
        raise SeqloomError(
            "--flush translates one line at a time; --trace and --processes read all lines first.",
            "leave out --flush, or --trace and --processes",
        )
    if several and trace:
        raise SeqloomError("--trace works with one process only.", "leave out --processes")


def _chunks(examples: Iterator[Example], size: int) -> Iterator[list[Example]]:
    while chunk := list(islice(examples, size)):
        yield chunk


def _requests(
    examples: Sequence[Example], first: int, translator: Translator, columns: Mapping[str, str | None]
) -> list[Request]:
    """Return a request per example, with its line number, counted from `first`, as the key for sampling."""
    from seqloom.types import Request

    reads_trees = "trees" in translator.capabilities
    prefix_column, require_column = columns["prefix_column"], columns["require_column"]
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
    """Return the words and phrases of a cell, which are separated by semicolons."""
    return tuple(phrase for part in cell.split(";") if (phrase := part.strip()))


def _plain(number: int, hypotheses: list[Hypothesis], *, ranked: bool) -> Iterator[str]:
    for hypothesis in hypotheses:
        text = hypothesis.text.replace("\n", " ")
        yield f"{number}\t{hypothesis.score:.4f}\t{text}\n" if ranked else f"{text}\n"


def _as_dict(number: int, source: str, hypotheses: list[Hypothesis], engine: str) -> dict[str, Any]:
    outputs = [asdict(hypothesis) for hypothesis in hypotheses]
    return {"line": number, "source": source, "engine": engine, "hypotheses": outputs}
