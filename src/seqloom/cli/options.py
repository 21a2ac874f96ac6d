"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Runs and models
Run = Annotated[Path, typer.Argument(help="Run directory.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Checkpoint of the run, e.g. step-500.", show_default="the best one"),
]
Device = Annotated[str, typer.Option(metavar="NAME", help="Device: auto, cpu or cuda.")]
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Decoding engine: torch, ctranslate2, or auto for the fastest exact one."
    ),
]
Threads = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Number of CPU threads.", show_default="automatic")
]

# Data
Tables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        help="Tables of pairs: TSV, CSV, JSONL or Parquet; text files for --model lm and mlm; - is standard "
        "input.",
    ),
]
PairsFile = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="Table of pairs: TSV, CSV, JSONL or Parquet; - is standard input."),
]
Source = Annotated[str | None, typer.Option(metavar="FILE", help="Text file with one source per line.")]
Target = Annotated[
    str | None, typer.Option(metavar="FILE", help="Text file with the target of each line of --source.")
]
SourceColumn = Annotated[
    str | None, typer.Option(help="Source column of a table: its header, or its number from 1.")
]
TargetColumn = Annotated[
    str | None, typer.Option(help="Target column of a table: its header, or its number from 1.")
]
Languages = Annotated[
    str | None,
    typer.Option(metavar="PAIR", help="Source and target language, e.g. en-de or en-GB,pt-BR."),
]
HeadsColumn = Annotated[
    str | None, typer.Option(help="Column with dependency heads, for models that read trees.")
]
TagsColumn = Annotated[
    str | None,
    typer.Option(help="Column with feature tags, e.g. V;PST;3;SG.", show_default="that of the training data"),
]
Column = Annotated[str | None, typer.Option("--column", hidden=True, help="Former name of --source-column.")]

ValidTables = Annotated[
    list[str] | None,
    typer.Option(
        "--valid",
        metavar="FILE",
        help="Table of validation pairs; repeatable.",
        show_default="a part of the data",
    ),
]
ValidSource = Annotated[str | None, typer.Option(metavar="FILE", help="Text file with validation sources.")]
ValidTarget = Annotated[str | None, typer.Option(metavar="FILE", help="Text file with validation targets.")]

# Planning
Minutes = Annotated[
    float | None,
    typer.Option(
        min=0.01, metavar="N", help="Time budget in minutes.", show_default="30, unless train.max_* is set"
    ),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="NAME",
        help="translate, tag (one label per word), classify (one per sequence), predict (vectors), continue or "
        "fill (text); with --model, its encoder is used.",
        show_default="that of the model",
    ),
]
PlanOption = Annotated[
    str | None,
    typer.Option(
        "--plan",
        metavar="MODE",
        help="auto: choose open options from the data and the machine; fixed: use constants.",
        show_default="auto; fixed with --config",
    ),
]

# Output
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
OutputFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Output file.", show_default="standard output")
]
Style = Annotated[
    str,
    typer.Option(metavar="NAME", help="Style of figures: page, or slide (16:9, text of at least 16 pt)."),
]

ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="YAML file with options.")]

# Configuration. The section in the metavar determines what usage_errors.py suggests.
SetAny = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SECTION.NAME=VALUE", help="Any option, e.g. train.max_minutes=30; repeatable."
    ),
]
SetConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.NAME=VALUE",
        help="Option to change in a YAML file, e.g. model.width=512; repeatable.",
    ),
]
SetLimit = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="train.NAME=VALUE",
        help="New limit: train.max_steps, max_minutes, max_epochs or patience; repeatable.",
    ),
]
SetSearch = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="search.NAME=VALUE", help="Search option, e.g. search.no_repeat=3; repeatable."
    ),
]

# Decoding
_SAMPLING, _MBR, _EXACT = "Sampling", "Minimum Bayes risk", "Exact search"
_MODELS = "Several models"
Beam = Annotated[
    int | None, typer.Option(metavar="N", help="Beam size; 1 is greedy search.", show_default="that of the run")
]
Strategy = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Decoding strategy: beam, sample, mbr, ...; its options: --set strategy.NAME=VALUE.",
    ),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="RUN",
        help="Run whose predictions are averaged with those of RUN; repeatable.",
        rich_help_panel=_MODELS,
    ),
]
EnsembleSpace = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Average the probability or log (log-probability) of each token.",
        rich_help_panel=_MODELS,
    ),
]
Sample = Annotated[
    bool, typer.Option("--sample", help="Sample outputs instead of searching.", rich_help_panel=_SAMPLING)
]
Temperature = Annotated[
    float | None,
    typer.Option(
        metavar="T",
        help="Softmax temperature: below 1 sharpens, above 1 flattens the distribution; 0 is greedy.",
        show_default="1",
        rich_help_panel=_SAMPLING,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        metavar="K", help="Keep only the K most probable tokens.", show_default="all", rich_help_panel=_SAMPLING
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Keep only the most probable tokens, up to a total probability of P.",
        show_default="1",
        rich_help_panel=_SAMPLING,
    ),
]
MinP = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Keep only tokens with at least P times the probability of the top token.",
        show_default="0",
        rich_help_panel=_SAMPLING,
    ),
]
Typical = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Keep only the most typical tokens, up to a total probability of P.",
        show_default="1",
        rich_help_panel=_SAMPLING,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", help="Random seed.", show_default="1", rich_help_panel=_SAMPLING),
]
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Find the output with the highest score of all, which a beam may miss; for short outputs.",
        rich_help_panel=_EXACT,
    ),
]
Expand = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Hypotheses to continue per line; an output that is not proved to be the best is flagged.",
        show_default="1000",
        rich_help_panel=_EXACT,
    ),
]
Mbr = Annotated[
    str | None,
    typer.Option(
        metavar="METRIC",
        help="Choose the output most similar to all samples, or with --beam to the n-best list: chrf or bleu.",
        rich_help_panel=_MBR,
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Number of samples for --mbr.",
        show_default="32",
        rich_help_panel=_MBR,
    ),
]

# Documents
_DOCUMENTS = "Documents"
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace existing translations, too.", rich_help_panel=_DOCUMENTS),
]
GlossaryFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Terms and their translations: a TSV or TBX file.",
        rich_help_panel=_DOCUMENTS,
    ),
]
MemoryFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Translation memory (TMX, XLIFF, PO, JSONL, ...): equal texts are taken from it.",
        rich_help_panel=_DOCUMENTS,
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="HTML or JSON file with flags, scores and alignments of all segments, the worst first.",
        rich_help_panel=_DOCUMENTS,
    ),
]
Protect = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND",
        help="Also keep these unchanged: number or capitals; repeatable.",
        rich_help_panel=_DOCUMENTS,
    ),
]
SplitOption = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="WAY",
        help="Translate sentences, lines or entire blocks of text (none).",
        show_default="sentences",
        rich_help_panel=_DOCUMENTS,
    ),
]


def tables_of(files: list[str] | None) -> list[str] | None:
    """Return the tables to train on; standard input is copied to a file, so that it can be read again."""
    from seqloom.data.corpus import keep_standard_input
    from seqloom.errors import SeqloomError

    if (files or []).count("-") > 1:
        raise SeqloomError("Standard input (-) can be read only once.", "give - once")
    return [keep_standard_input() if file == "-" else file for file in files or []] or None
