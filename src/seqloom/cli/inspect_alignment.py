"""`seqloom inspect alignment`: the links of one pair as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.align import (
    Agree,
    Iterations,
    Letters,
    Lowercase,
    ModelName,
    Pairs,
    Symmetrise,
    Threads,
    data_config,
    link,
)
from seqloom.cli.drawing import check_drawing, write_drawing
from seqloom.cli.evaluate_alignment import GoldFrom, read_gold
from seqloom.cli.options import Source, SourceColumn, Style, Target, TargetColumn
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text


def alignment(
    pairs: Pairs = None,
    line: Annotated[int, typer.Option(min=1, help="Which pair to show, from 1.")] = 1,
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
    gold: Annotated[Path | None, typer.Option(help="The gold standard of the first lines.")] = None,
    gold_from: GoldFrom = 0,
    threads: Threads = None,
    out: Annotated[Path | None, typer.Option(help="Write a heat map: .png, .svg, .pdf or .json.")] = None,
    style: Style = "page",
    json_: Annotated[bool, typer.Option("--json", help="Posteriors and links as JSON.")] = False,
) -> None:
    """Align a corpus and show one of its pairs: how probable every link is, and which were chosen."""
    from seqloom.data.report import DataReport
    from seqloom.evaluate.alignment import pharaoh
    from seqloom.inspect.alignment import AlignedPair
    from seqloom.statistical.alignment.align import check_names
    from seqloom.statistical.alignment.words import number, read_words

    check_names(model, symmetrise)
    check_drawing(out, style, AlignedPair.formats)
    right = read_gold(gold, gold_from) if gold else []
    words = list(read_words(data_config(pairs, source, target, source_column, target_column), DataReport()))
    if line > len(words):
        raise SeqloomError(
            f"There is no line {line:,}: the corpus has {len(words):,}.", "choose another --line"
        )
    if gold and line > len(right):
        raise SeqloomError(
            f"There is no line {line:,} in {gold}: it has {len(right):,}.", "choose another --line"
        )
    numbers = number(words, lowercase=lowercase, letters=letters)
    aligner, links = link(
        numbers, model, symmetrise, iterations=iterations, agree=agree, threads=threads, quiet=True
    )
    forward, backward = aligner.posteriors(line - 1)
    chosen = [(i, j) for i, j in links[line - 1].tolist()]
    pair = AlignedPair(*words[line - 1], forward, backward, chosen, right[line - 1] if gold else None)
    if out:
        write_drawing(pair, out, style=style, title=f"Word alignment by {model}, {symmetrise}")
    if json_:
        print(json_text(pair.to_dict()))
    else:
        print(pharaoh(chosen))
        for i, j in chosen:
            print(f"{pair.source[i]}\t{pair.target[j]}\t{forward[i, j]:.3f}\t{backward[i, j]:.3f}")
