"""`seqloom evaluate-alignment`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import Checkpoint, Device, Json, SourceColumn, TargetColumn
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.evaluate.alignment import AlignmentScore, Gold, Link
    from seqloom.inspect.alignment import AttentionChoice

    Rows = Sequence[Collection[Link]]

GoldFrom = Annotated[
    int, typer.Option(min=0, max=1, metavar="N", help="Number of the first word in the gold standard: 0 or 1.")
]


def evaluate_alignment(
    links: Annotated[
        Path, typer.Argument(metavar="LINKS|PAIRS", help="File of links; with --run a table of pairs.")
    ],
    gold: Annotated[
        Path, typer.Argument(help="Gold standard: i-j is a sure link, ipj or i?j a possible link.")
    ],
    gold_from: GoldFrom = 0,
    links_from: Annotated[
        int, typer.Option(min=0, max=1, metavar="N", help="Number of the first word in the links: 0 or 1.")
    ] = 0,
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Run whose attention to score on the pairs.")
    ] = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    keep: Annotated[
        bool, typer.Option("--keep", help="Store the best attention head as the alignment head of the run.")
    ] = False,
    json_: Json = False,
) -> None:
    """Score word alignments against a gold standard.

    Reports alignment error rate (AER), precision, recall and F1. With --run, the links come from the attention
    of a model under forced decoding of the targets: every head and the mean of all heads, best first.

    Examples:
      seqloom evaluate-alignment links.txt gold.txt --gold-from 1
      seqloom evaluate-alignment pairs.tsv gold.txt --run runs/de-en --keep
    """
    from seqloom.data.readers import check_tables
    from seqloom.evaluate.alignment import score_alignment

    references = read_gold(gold, gold_from)
    if keep and not run:
        raise SeqloomError("--keep needs --run.", "add --run RUN")
    if not run:
        check_tables([], {"source_column": source_column, "target_column": target_column})
    extractions = _attention(run, links, source_column, target_column, checkpoint, device) if run else []
    if run:
        links_by_name: dict[str, Rows] = {one.name: one.links for one in extractions}
    else:
        links_by_name = {str(links): _read_links(links, links_from)}
    for rows in links_by_name.values():
        if len(rows) != len(references):
            raise SeqloomError(
                f"{links} has {len(rows):,} lines, but {gold} has {len(references):,}.",
                "both must have one line per sentence; cut the longer file, e.g. with head",
            )
    scores = {name: score_alignment(rows, references) for name, rows in links_by_name.items()}
    best = sorted(scores.items(), key=lambda item: item[1].aer)
    if keep and run:
        heads = [one for one in extractions if one.head]
        _store_head(run, min(heads, key=lambda one: scores[one.name].aer), gold)
    if json_:
        reports = [{"name": name, **score.as_dict()} for name, score in best]
        print_json(reports if run else reports[0])
    else:
        _print(best)


def read_gold(path: Path, first: int) -> list[Gold]:
    """Return the gold standard of every line; print a note if `first` seems to be wrong."""
    from seqloom.data.lines import lines
    from seqloom.evaluate.alignment import parse_gold

    gold = [
        parse_gold(line, first=first, where=f"{path}, line {number},")
        for number, line in enumerate(lines(str(path)), 1)
    ]
    smallest = min((min(link) for row in gold for link in row.possible), default=0)
    if smallest > 0:
        print(
            f"note: no word in {path} has number {first}; are words counted from {first + 1}?", file=sys.stderr
        )
    return gold


def _read_links(path: Path, first: int) -> Rows:
    from seqloom.data.lines import lines
    from seqloom.evaluate.alignment import parse_links

    return [
        parse_links(line, first=first, where=f"{path}, line {number},")
        for number, line in enumerate(lines(str(path)), 1)
    ]


def _attention(
    run: Path,
    pairs: Path,
    source_column: str | None,
    target_column: str | None,
    checkpoint: str | None,
    device: str,
) -> list[AttentionChoice]:
    """Return the links of every pair for each method of extracting them from the attention."""
    from seqloom.cli.align import data_config
    from seqloom.data.report import DataReport
    from seqloom.inspect.alignment import attention_links
    from seqloom.progress import counter
    from seqloom.run.load import load_decoder
    from seqloom.statistical.alignment.words import read_words

    decoder = load_decoder(run, checkpoint=checkpoint, device=device)
    config = data_config(str(pairs), None, None, source_column, target_column)
    texts = [(" ".join(source), " ".join(target)) for source, target in read_words(config, DataReport())]
    with counter("pairs", total=len(texts)) as advance:
        extractions = attention_links(
            decoder.model, decoder.tokenizers, texts, decoder.search, device=decoder.device, on_progress=advance
        )
    if not extractions:
        raise SeqloomError(f"{pairs} has no pair with words on both sides.", "check its format and columns")
    return extractions


def _store_head(run: Path, choice: AttentionChoice, gold: Path) -> None:
    """Store the head with the best alignments in the run directory."""
    from seqloom.files import sealed, write_json
    from seqloom.run.directory import Run

    assert choice.head is not None
    head = {"layer": choice.head.layer, "head": choice.head.head, "later": choice.head.shifted}
    write_json(Run.open(run).alignment_file, sealed({**head, "chosen_by": str(gold)}))
    print(f"{run} now uses {choice.name} for alignments", file=sys.stderr)


def _print(scores: list[tuple[str, AlignmentScore]]) -> None:
    numbers = ("AER", "precision", "recall", "F1", "linked", "sure", "sentences")
    table = new_table("links", *numbers, right=numbers)
    table.columns[0].min_width = 24
    for name, score in scores:
        shares = (score.aer, score.precision, score.recall, score.f1)
        counts = (score.links, score.sure, score.sentences)
        table.add_row(name, *(f"{100 * share:.1f}" for share in shares), *(f"{count:,}" for count in counts))
    print_tables(table)
