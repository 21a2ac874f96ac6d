"""`seqloom align`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from seqloom.cli.options import Source, SourceColumn, Target, TargetColumn
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.data.config import DataConfig
    from seqloom.statistical.alignment.align import Aligner, Links, Model
    from seqloom.statistical.alignment.bitext import Pair
    from seqloom.statistical.alignment.symmetrise import Method

Pairs = Annotated[str | None, typer.Argument(help="A table of pairs: TSV, CSV, JSONL, Parquet; - is stdin.")]
ModelName = Annotated[str, typer.Option("--model", help="hmm, diagonal, ibm2 or ibm1.")]
Symmetrise = Annotated[
    str,
    typer.Option(
        help="grow-diag-final-and, grow-diag-final, grow-diag, intersection, union, forward or backward."
    ),
]
Iterations = Annotated[int, typer.Option(min=1, help="Of EM, of each stage of the model.")]
Agree = Annotated[
    bool | None,
    typer.Option(help="Train both directions on links in which both believe; only the HMM if not given."),
]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Compare words in lower case.")]
Letters = Annotated[int, typer.Option(min=0, help="Compare words by so many first letters; 0 = by all.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Processors to use; all if not given.")]


def align(
    pairs: Pairs = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    model: ModelName = "hmm",
    symmetrise: Symmetrise = "grow-diag-final-and",
    iterations: Iterations = 5,
    agree: Agree = None,
    lowercase: Lowercase = False,
    letters: Letters = 0,
    reverse: Annotated[bool, typer.Option("--reverse", help="Write target-source.")] = False,
    threads: Threads = None,
    out: Annotated[Path | None, typer.Option(help="The file of links; otherwise standard output.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print a summary as JSON; needs --out.")] = False,
) -> None:
    """Link the words of sentence pairs: a line 0-0 1-2 ... per line, source and target counted from 0.

    Words stand between white space. A line that is empty or malformed gets an empty line.
    """
    from seqloom.data.report import DataReport
    from seqloom.evaluate.alignment import pharaoh
    from seqloom.outputs import check_can_write, output
    from seqloom.statistical.alignment.align import check_names
    from seqloom.statistical.alignment.words import number, read_words

    check_names(model, symmetrise)
    if out:
        check_can_write(out)
    elif json_:
        raise SeqloomError("--json would mix with the links on standard output.", "name a file for them: --out")
    report = DataReport()
    config = data_config(pairs, source, target, source_column, target_column)
    numbers = number(read_words(config, report), lowercase=lowercase, letters=letters)
    aligner, links = link(
        numbers, model, symmetrise, iterations=iterations, agree=agree, threads=threads, quiet=json_
    )
    with output(out) as file:
        for row in links:
            file.write(pharaoh(row[:, ::-1] if reverse else row) + "\n")
    if report.dropped:
        print(report.summary(), file=sys.stderr)
    if json_:
        chosen = {"model": model, "symmetrise": symmetrise, "iterations": iterations}
        print(json_text({**chosen, **_summary(aligner, numbers, links)}, indent=2))


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
        raise SeqloomError("No file is given.", "name a table of pairs, or --source and --target")
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
    threads: int | None,
    quiet: bool,
) -> tuple[Aligner, list[Links]]:
    """The trained aligner and the links of every pair, with a bar that shows how long it takes."""
    from seqloom.machine import checked_threads
    from seqloom.progress import counter
    from seqloom.statistical.alignment.align import Aligner, passes

    kind, method = cast("Model", model), cast("Method", symmetrise)
    whole = sum(1 for source, target in numbers if len(source) and len(target))
    if not whole:
        raise SeqloomError(
            f"There is nothing to align: none of {len(numbers):,} lines has words on both sides.",
            "check the file's format and columns (--source-column, --target-column)",
        )
    say = None if quiet else lambda line: print(line, file=sys.stderr)
    aligner = Aligner(numbers, threads=checked_threads(threads))
    with counter(f"{model}: pairs", total=whole * passes(kind, iterations)) as advance:
        aligner.train(kind, iterations=iterations, agree=agree, say=say, on_progress=advance)
        return aligner, aligner.links(method, on_progress=advance)


def _summary(aligner: Aligner, numbers: Sequence[Pair], links: list[Links]) -> dict[str, Any]:
    """How many words were linked, and how the likelihood went."""
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
