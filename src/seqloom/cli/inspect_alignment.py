"""`seqloom inspect alignment`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.align import (
    Agree,
    Letters,
    Lowercase,
    ModelName,
    Prior,
    Symmetrise,
    data_config,
    link,
)
from seqloom.cli.evaluate_alignment import GoldFrom, read_gold
from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.inspect_em import show_steps
from seqloom.cli.options import (
    Json,
    PairsFile,
    Source,
    SourceColumn,
    Style,
    Target,
    TargetColumn,
    Threads,
)
from seqloom.cli.output import print_json
from seqloom.errors import SeqloomError

_WITHOUT_CORPUS = ("iterations", "out", "style", "json_")  # options that show EM on the toy corpus


def alignment(
    context: typer.Context,
    pairs: PairsFile = None,
    line: Annotated[int, typer.Option(min=1, metavar="N", help="Line of the pair to show, from 1.")] = 1,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    model: ModelName = "hmm",
    symmetrise: Symmetrise = "grow-diag-final-and",
    iterations: Annotated[
        int,
        typer.Option(
            min=1, max=10_000, metavar="N", help="Number of EM iterations of each stage of the model."
        ),
    ] = 5,
    agree: Agree = None,
    prior: Prior = 0.01,
    lowercase: Lowercase = False,
    letters: Letters = 0,
    gold: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Gold standard of the first lines of the corpus.")
    ] = None,
    gold_from: GoldFrom = 0,
    threads: Threads = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for a heat map: .png, .svg, .pdf or .json.")
    ] = None,
    style: Style = "page",
    json_: Json = False,
) -> None:
    """Align a corpus and show the links of one pair.

    Prints the chosen links, then the posterior probability of each link in both directions. Without a corpus,
    it shows how IBM 1 converges on three pairs of two words.

    Examples:
      seqloom inspect alignment pairs.tsv --line 7 --out links.png
      seqloom inspect alignment --iterations 10 --out em.png
    """
    from seqloom.data.report import DataReport
    from seqloom.evaluate.alignment import pharaoh
    from seqloom.inspect.alignment import AlignedPair
    from seqloom.inspect.convergence import alignment_steps
    from seqloom.statistical.alignment.align import check_names
    from seqloom.statistical.alignment.words import read_words, words_to_ids

    check_names(model, symmetrise)
    check_figure(out, style, AlignedPair.formats)
    if pairs is None and source is None and target is None:
        _refuse_other_options(context)
        show_steps(alignment_steps(iterations), out=out, style=style, json_=json_)
        return
    references = read_gold(gold, gold_from) if gold else []
    words = list(read_words(data_config(pairs, source, target, source_column, target_column), DataReport()))
    if line > len(words):
        raise SeqloomError(
            f"There is no line {line:,}: the corpus has {len(words):,}.", "choose another --line"
        )
    if gold and line > len(references):
        raise SeqloomError(
            f"There is no line {line:,} in {gold}: it has {len(references):,}.", "choose another --line"
        )
    numbers = words_to_ids(words, lowercase=lowercase, letters=letters)
    aligner, links = link(
        numbers,
        model,
        symmetrise,
        iterations=iterations,
        agree=agree,
        prior=prior,
        threads=threads,
        quiet=True,
    )
    forward, backward = aligner.posteriors(line - 1)
    chosen = [(i, j) for i, j in links[line - 1].tolist()]
    pair = AlignedPair(*words[line - 1], forward, backward, chosen, references[line - 1] if gold else None)
    if out:
        write_figure(pair, out, style=style, title=f"Word alignment by {model}, {symmetrise}")
    if json_:
        print_json(pair.to_dict(), compact=True)
    else:
        print(pharaoh(chosen))
        for i, j in chosen:
            print(f"{pair.source[i]}\t{pair.target[j]}\t{forward[i, j]:.3f}\t{backward[i, j]:.3f}")


def _refuse_other_options(context: typer.Context) -> None:
    """Raise for an option that has no effect without a corpus."""
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in _WITHOUT_CORPUS:
            raise SeqloomError(
                f"{parameter.opts[0]} needs a corpus.", "give a table of pairs, or --source and --target"
            )
