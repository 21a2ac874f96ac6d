"""`seqloom data clean`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cleaning.options import DEFAULT_RULES, RULES, CleaningOptions
from seqloom.cli.options import Json, Languages, PairsFile, Source, SourceColumn, Target, TargetColumn
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.cleaning.result import CleaningResult
    from seqloom.data.config import DataConfig

_RULES, _LIMITS, _MODEL = "Rules", "Limits", "Model"
_SHOWN_EXAMPLES = 2  # of each rule, on the screen
_SHOWN_TEXT = 60  # characters of an example


def clean(
    pairs: PairsFile = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Output file: .tsv or .jsonl, also .gz.")
    ] = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    languages: Languages = None,
    format: Annotated[
        str | None,
        typer.Option(help="Format: tsv, csv, jsonl, parquet, tmx, po, ...", show_default="by suffix"),
    ] = None,
    out_source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Text file for the sources, instead of --out.")
    ] = None,
    out_target: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Text file for the targets, instead of --out.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TSV file for the dropped lines.",
            show_default="the output file + .dropped.tsv",
        ),
    ] = None,
    json_: Json = False,
    rules: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help=f"Rules that are on: {', '.join(RULES)}; all; default.",
            show_default=", ".join(DEFAULT_RULES),
            rich_help_panel=_RULES,
        ),
    ] = None,
    without: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Rules that are off.", rich_help_panel=_RULES)
    ] = None,
    max_ratio: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="length-ratio: most times that a target may be longer or shorter than typical.",
            show_default="2, or more if lengths vary much",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    min_script: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="script: least share of letters of the usual scripts.",
            show_default=f"{CleaningOptions.min_script:g}",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    min_language: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="language: least probability of the expected language.",
            show_default=f"{CleaningOptions.min_language:g}",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    source_language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Language of the sources, e.g. en; switches the rule language on.",
            show_default="the most frequent one",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Language of the targets, e.g. de; switches the rule language on.",
            show_default="the most frequent one",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    min_alignment: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="alignment: least information of one side about the other, as a share of the typical pair's.",
            show_default=f"{CleaningOptions.min_alignment:g}",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="alignment: number of CPU threads.",
            show_default="automatic",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Run that scores each pair; switches the rule model on.", rich_help_panel=_MODEL
        ),
    ] = None,
    min_model: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="model: least information of the source about the target, as a share of the typical pair's.",
            show_default=f"{CleaningOptions.min_model:g}",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Checkpoint of the run, e.g. step-500.",
            show_default="the best one",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Device: auto, cpu or cuda.", show_default="auto", rich_help_panel=_MODEL
        ),
    ] = None,
) -> None:
    """Remove bad pairs from a parallel corpus.

    Rules find duplicates, wrong lengths, scripts and languages, and pairs that are not translations of each
    other. Pairs that pass all rules are written with their text unchanged. Every dropped line is listed in a
    report with the rule, the score and the reason. Malformed and empty lines are always dropped.

    Examples:
      seqloom data clean pairs.tsv --out clean.tsv
      seqloom data clean pairs.tsv --out clean.tsv --without near-duplicate
      seqloom data clean pairs.tsv --out clean.tsv --target-language de
      seqloom data clean pairs.tsv --out clean.tsv --model runs/en-de
    """
    from seqloom.cleaning.clean import clean_corpus
    from seqloom.cleaning.writing import pair_files
    from seqloom.outputs import check_can_write

    given = {
        "max_ratio": max_ratio,
        "min_script": min_script,
        "min_language": min_language,
        "source_language": source_language,
        "target_language": target_language,
        "min_alignment": min_alignment,
        "threads": threads,
        "model": model,
        "min_model": min_model,
        "checkpoint": checkpoint,
        "device": device,
    }
    options = CleaningOptions.chosen(rules, without, given)
    files = pair_files(out, out_source, out_target)
    report = report or files.paths[0].with_name(f"{files.paths[0].name}.dropped.tsv")
    if report in files.paths:
        raise SeqloomError(f"{report} is also an output file.", "choose another --report")
    check_can_write(report)
    config = _data_config(pairs, source, target, source_column, target_column, languages, format)
    result = clean_corpus(config, options, files, report)
    written = [str(path) for path in files.paths]
    if json_:
        print_json({**result.as_dict(), "files": written, "report": str(report)})
        return
    _print_result(result)
    print(f"kept:    {', '.join(written)}\ndropped: {report}")
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _data_config(
    pairs: str | None,
    source: str | None,
    target: str | None,
    source_column: str | None,
    target_column: str | None,
    languages: str | None,
    format: str | None,
) -> DataConfig:
    """Return the data options; standard input is copied to a file, because the data is read twice."""
    from seqloom.data.config import DataConfig
    from seqloom.data.corpus import keep_standard_input
    from seqloom.data.readers import check_tables

    files = {"train": pairs, "source": source, "target": target}
    if not any(files.values()):
        raise SeqloomError("No file given.", "give a table of pairs, or --source and --target")
    if list(files.values()).count("-") > 1:
        raise SeqloomError("Standard input (-) can be read only once.", "give - once")
    columns = {"source_column": source_column, "target_column": target_column}
    check_tables([pairs] if pairs else [], {**columns, "format": format})
    values = {**files, **columns, "languages": languages, "format": format}
    config = DataConfig.checked({name: value for name, value in values.items() if value is not None}, "data")
    if "-" not in files.values():
        return config
    kept = {name: keep_standard_input() for name, file in files.items() if file == "-"}
    return config.model_copy(update={**kept, **({"train": (kept["train"],)} if "train" in kept else {})})


def _print_result(result: CleaningResult) -> None:
    table = new_table("rule", "dropped", "share", "limit", right=("dropped", "share"))
    for name, rule in result.rules.items():
        if rule.limit or rule.dropped:
            table.add_row(name, f"{rule.dropped:,}", f"{rule.dropped / result.lines:.2%}", rule.limit)
    table.add_row("kept", f"{result.kept:,}", f"{result.kept / result.lines:.2%}", f"of {result.lines:,} lines")
    print_tables(table)
    if result.dropped:
        print_tables(_examples(result))


def _examples(result: CleaningResult) -> Table:
    from rich.text import Text

    table = new_table("rule", "line", "score", "source", "target", title="Examples", right=("line", "score"))
    for name, rule in result.rules.items():
        for example, _, finding in rule.examples[:_SHOWN_EXAMPLES]:
            score = "" if finding.score is None else f"{finding.score:.2g}"
            texts = [Text(_shortened(text)) for text in (example.source, example.target or "")]
            table.add_row(name, str(example.line), score, *texts)
    return table


def _shortened(text: str) -> str:
    """Return the beginning of a text, with control characters escaped."""
    cut = text if len(text) <= _SHOWN_TEXT else text[: _SHOWN_TEXT - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
