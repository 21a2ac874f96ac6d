"""`seqloom shortlist`."""

from __future__ import annotations

from typing import Annotated

import typer

from seqloom.cli.options import Json, Threads
from seqloom.cli.options import Run as RunArgument
from seqloom.cli.output import print_json
from seqloom.errors import SeqloomError


def shortlist(
    run: RunArgument,
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Table of pairs to learn from.", show_default="data of the run"),
    ] = None,
    translations: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="Number of translations per source token.")
    ] = 50,
    frequent: Annotated[
        int, typer.Option(min=0, metavar="N", help="Number of most frequent target tokens, always included.")
    ] = 300,
    pairs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of pairs to learn from.")
    ] = 1_000_000,
    threads: Threads = None,
    json_: Json = False,
) -> None:
    """Build a lexical shortlist for faster decoding.

    Learns from word alignments which target tokens each source token can need, and writes RUN/shortlist. With
    --set search.shortlist=true, translate and evaluate compute scores for these tokens only.

    Examples:
      seqloom shortlist runs/de-en
      seqloom translate runs/de-en test.de --set search.shortlist=true
    """
    from seqloom.data.corpus import Corpus
    from seqloom.progress import counter
    from seqloom.registry import architecture
    from seqloom.run.directory import Run
    from seqloom.run.load import use_of
    from seqloom.statistical.alignment.shortlist import coverage, make_shortlist
    from seqloom.system import checked_threads

    opened = Run.open(run)
    config, tokenizers = opened.config(), opened.tokenizers()
    if architecture(config.model.name).fitted or use_of(config) != "translate":
        raise SeqloomError(
            f"The model of {run} ({config.model.name}) cannot use a shortlist.",
            "shortlists are for neural translation models",
        )
    if tokenizers.frames:
        raise SeqloomError(
            f"The sources of {run} are feature frames, which have no shortlist.", "decode without a shortlist"
        )
    unstreamed = config.data.model_copy(update={"stream": False})
    if data is None:
        prepared = Corpus(unstreamed, config.text).reopen(opened.data_record(), opened.tokenizers())
    else:
        given = unstreamed.model_copy(update={"train": (data,), "source": None, "target": None, "weights": ()})
        prepared = Corpus(given, config.text).prepare(tokenizers)
    train, valid = prepared.store, prepared.valid
    step = -(-len(train) // pairs)  # spread over the entire corpus
    learned = [(train.source(i), train.target(i)) for i in range(0, len(train), step)]
    with counter("aligned", total=5 * len(learned)) as advance:
        table = make_shortlist(
            learned,
            tokenizers,
            translations=translations,
            frequent=frequent,
            threads=checked_threads(threads),
            on_progress=advance,
        )
    found = coverage(table, ((valid.source(i), valid.target(i)) for i in range(len(valid))))
    table.save(opened.shortlist_folder, tokenizers)
    if json_:
        facts = {"translations": translations, "frequent": frequent, "learned_from": len(learned)}
        print_json({**facts, **found.as_dict(), "vocabulary": tokenizers.target.size})
        return
    print(f"learned from {len(learned):,} pairs: {translations} translations, {frequent} frequent tokens")
    print(
        f"{found.pairs:,} validation pairs: {found.mean_size:,.0f} of {tokenizers.target.size:,} tokens per "
        f"list on average, which contain {100 * found.share:.1f} % of the reference tokens"
    )
    print(f"to use it: seqloom translate {run} FILE --set search.shortlist=true")
