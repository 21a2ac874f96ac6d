"""`seqloom evaluate-alignment`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import SourceColumn, TargetColumn
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.evaluate.alignment import AlignmentScore, Gold, Link
    from seqloom.inspect.alignment import Look

    Rows = Sequence[Collection[Link]]

GoldFrom = Annotated[int, typer.Option(min=0, max=1, help="The first word of the gold standard is 0 or 1.")]


def evaluate_alignment(
    links: Annotated[Path, typer.Argument(metavar="LINKS|PAIRS", help="Links; with --run a table of pairs.")],
    gold: Annotated[Path, typer.Argument(help="The gold standard: i-j is sure, ipj or i?j possible.")],
    gold_from: GoldFrom = 0,
    links_from: Annotated[int, typer.Option(min=0, max=1, help="The first word of the links is 0 or 1.")] = 0,
    run: Annotated[Path | None, typer.Option(help="Score the attention of this run on the pairs.")] = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    checkpoint: Annotated[str | None, typer.Option(help="Of the run; the best one if not given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    keep: Annotated[
        bool, typer.Option("--keep", help="The run's alignments are the best head's from now on.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure word links against a gold standard: alignment error rate, precision, recall and F1.

    With --run, links are read off a model's attention while it is made to write the targets, in every way
    there is; the best comes first.
    """
    from seqloom.data.readers import check_tables
    from seqloom.evaluate.alignment import score_alignment

    right = read_gold(gold, gold_from)
    if keep and not run:
        raise SeqloomError("--keep is for the attention of a run, and none is named.", "add --run RUN")
    if not run:
        check_tables([], {"source_column": source_column, "target_column": target_column})
    looks = _attention(run, links, source_column, target_column, checkpoint, device) if run else []
    if run:
        found: dict[str, Rows] = {look.name: look.links for look in looks}
    else:
        found = {str(links): _read_links(links, links_from)}
    for rows in found.values():
        if len(rows) != len(right):
            raise SeqloomError(
                f"{links} has {len(rows):,} lines, but {gold} has {len(right):,}.",
                "both must be about the same sentences; take the first lines, e.g. with head",
            )
    scores = {name: score_alignment(rows, right) for name, rows in found.items()}
    best = sorted(scores.items(), key=lambda item: item[1].aer)
    if keep and run:
        ranked = sorted((look for look in looks if look.head), key=lambda look: scores[look.name].aer)
        _keep(run, ranked[0], gold)
    if json_:
        reports = [{"name": name, **score.as_dict()} for name, score in best]
        print(json_text(reports if run else reports[0], indent=2))
    else:
        _print(best)


def read_gold(path: Path, first: int) -> list[Gold]:
    """The gold standard of every line, and a note if it seems to be counted otherwise."""
    from seqloom.data.lines import lines
    from seqloom.evaluate.alignment import parse_gold

    gold = [
        parse_gold(line, first=first, where=f"{path}, line {number},")
        for number, line in enumerate(lines(str(path)), 1)
    ]
    least = min((min(link) for row in gold for link in row.possible), default=0)
    if least > 0:
        print(
            f"note: no word in {path} has the number {first}; is it counted from {first + 1}?", file=sys.stderr
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
) -> list[Look]:
    """The links of every pair, for every way to read them off the attention."""
    from seqloom.cli.align import data_config
    from seqloom.data.report import DataReport
    from seqloom.inspect.alignment import attention_looks
    from seqloom.loading import load_decoder
    from seqloom.progress import counter
    from seqloom.statistical.alignment.words import read_words

    decoder = load_decoder(run, checkpoint=checkpoint, device=device)
    config = data_config(str(pairs), None, None, source_column, target_column)
    texts = [(" ".join(source), " ".join(target)) for source, target in read_words(config, DataReport())]
    with counter("pairs", total=len(texts)) as advance:
        looks = attention_looks(
            decoder.model, decoder.tokenizers, texts, decoder.search, device=decoder.device, on_progress=advance
        )
    if not looks:
        raise SeqloomError(f"{pairs} has no pair with words on both sides.", "check its format and columns")
    return looks


def _keep(run: Path, look: Look, gold: Path) -> None:
    """Writes which head aligns words best."""
    from seqloom.files import sealed, write_json
    from seqloom.run import Run

    assert look.head is not None
    write_json(Run.open(run).alignment_file, sealed({**look.head._asdict(), "chosen_by": str(gold)}))
    print(f"the alignments of {run} are from now on those of {look.name}", file=sys.stderr)


def _print(scores: list[tuple[str, AlignmentScore]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("links", min_width=24)
    for head in ("AER", "precision", "recall", "F1", "linked", "sure", "sentences"):
        table.add_column(head, justify="right")
    for name, score in scores:
        shares = (score.aer, score.precision, score.recall, score.f1)
        counts = (score.links, score.sure, score.sentences)
        table.add_row(name, *(f"{100 * share:.1f}" for share in shares), *(f"{count:,}" for count in counts))
    Console(markup=False).print(table)  # a file may be called [b].links
