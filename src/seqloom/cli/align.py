"""`seqloom align`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from seqloom.cli.options import PairsFile, Source, SourceColumn, Target, TargetColumn, Threads
from seqloom.cli.output import print_json
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.data.config import DataConfig
    from seqloom.statistical.alignment.align import Aligner, Links, Model, Round
    from seqloom.statistical.alignment.bitext import Pair
    from seqloom.statistical.alignment.symmetrise import Method

logger = logging.getLogger(__name__)

ModelName = Annotated[
    str, typer.Option("--model", metavar="NAME", help="Alignment model: hmm, diagonal, ibm2 or ibm1.")
]
Symmetrise = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How to combine both directions: grow-diag-final-and, grow-diag-final, grow-diag, intersection, "
        "union, forward or backward.",
    ),
]
Iterations = Annotated[
    int, typer.Option(min=1, metavar="N", help="Number of EM iterations of each stage of the model.")
]
Agree = Annotated[
    bool | None,
    typer.Option(help="Train the two directions to agree.", show_default="only for --model hmm"),
]
Prior = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="A",
        help="Pseudo-count of every word pair; 0 gives relative frequencies, and IBM 1 and 2 as published.",
    ),
]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Lowercase words before aligning.")]
Letters = Annotated[
    int, typer.Option(min=0, metavar="N", help="Compare only the first N letters of a word; 0 = all letters.")
]


def align(
    pairs: PairsFile = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    model: ModelName = "hmm",
    symmetrise: Symmetrise = "grow-diag-final-and",
    iterations: Iterations = 5,
    agree: Agree = None,
    prior: Prior = 0.01,
    lowercase: Lowercase = False,
    letters: Letters = 0,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Write links as target-source instead of source-target.")
    ] = False,
    threads: Threads = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Output file for the links.", show_default="standard output"),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print a summary as JSON; needs --out.")] = False,
) -> None:
    """Align the words of sentence pairs.

    Writes one line of links such as 0-0 1-2 for each pair, with source and target words counted from 0. Words
    are separated by white space. Empty and malformed lines give an empty line.

    Examples:
      seqloom align pairs.tsv --out links.txt
      seqloom align --source train.de --target train.en --out links.txt
    """
    from seqloom.data.report import DataReport
    from seqloom.evaluate.alignment import pharaoh
    from seqloom.outputs import check_can_write, output
    from seqloom.statistical.alignment.align import check_names
    from seqloom.statistical.alignment.words import read_words, words_to_ids

    check_names(model, symmetrise)
    if out:
        check_can_write(out)
    elif json_:
        raise SeqloomError("--json needs --out, because standard output has the links.", "add --out FILE")
    report = DataReport()
    config = data_config(pairs, source, target, source_column, target_column)
    numbers = words_to_ids(read_words(config, report), lowercase=lowercase, letters=letters)
    aligner, links = link(
        numbers,
        model,
        symmetrise,
        iterations=iterations,
        agree=agree,
        prior=prior,
        threads=threads,
        quiet=json_,
    )
    with output(out) as file:
        for row in links:
            file.write(pharaoh(row[:, ::-1] if reverse else row) + "\n")
    if report.dropped:
        print(report.summary(), file=sys.stderr)
    if json_:
        chosen = {"model": model, "symmetrise": symmetrise, "iterations": iterations}
        print_json({**chosen, **_summary(aligner, numbers, links)})


def data_config(
    pairs: str | None,
    source: str | None,
    target: str | None,
    source_column: str | None,
    target_column: str | None,
) -> DataConfig:
    """Return the data options for these files and columns."""
    from seqloom.data.config import DataConfig
    from seqloom.data.readers import check_tables

    if pairs is None and source is None and target is None:
        raise SeqloomError("No file given.", "give a table of pairs, or --source and --target")
    options = {
        "train": pairs,
        "source": source,
        "target": target,
        "source_column": source_column,
        "target_column": target_column,
    }
    config = DataConfig.checked({key: value for key, value in options.items() if value is not None}, "data")
    check_tables(config.train, {"source_column": source_column, "target_column": target_column})
    return config


def link(
    numbers: Sequence[Pair],
    model: str,
    symmetrise: str,
    *,
    iterations: int,
    agree: bool | None,
    prior: float,
    threads: int | None,
    quiet: bool,
) -> tuple[Aligner, list[Links]]:
    """Train an aligner, showing progress; return it with the links of every pair."""
    from seqloom.progress import counter
    from seqloom.statistical.alignment.align import Aligner, passes
    from seqloom.system import checked_threads

    kind, method = cast("Model", model), cast("Method", symmetrise)
    alignable = sum(1 for source, target in numbers if len(source) and len(target))
    if not alignable:
        raise SeqloomError(
            f"Nothing to align: none of the {len(numbers):,} lines has words on both sides.",
            "check the file's format and columns (--source-column, --target-column)",
        )
    on_round = None if quiet else _log_round
    aligner = Aligner(numbers, prior=prior, threads=checked_threads(threads))
    with counter(f"{model}: pairs", total=alignable * passes(kind, iterations)) as advance:
        aligner.train(kind, iterations=iterations, agree=agree, on_round=on_round, on_progress=advance)
        return aligner, aligner.links(method, on_progress=advance)


def _log_round(iteration: Round) -> None:
    logger.info("%s", iteration)


def _summary(aligner: Aligner, numbers: Sequence[Pair], links: list[Links]) -> dict[str, Any]:
    """Return the number of links, the share of linked words and the log-likelihoods by iteration."""
    shares = {}
    for side, name in enumerate(("source", "target")):
        linked = sum(len(set(row[:, side].tolist())) for row in links)
        shares[f"linked_{name}_words"] = linked / max(1, sum(len(pair[side]) for pair in numbers))
    return {
        "lines": len(numbers),
        "aligned_lines": sum(1 for row in links if len(row)),
        "links": sum(map(len, links)),
        **shares,
        "rounds": [
            {"stage": r.stage, "number": r.number, "forward": r.forward, "backward": r.backward}
            for r in aligner.rounds
        ],
    }
