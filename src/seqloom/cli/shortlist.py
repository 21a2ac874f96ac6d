"""`seqloom shortlist`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text


def shortlist(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    data: Annotated[
        str | None, typer.Option(help="A table of pairs to learn from instead of the run's training pairs.")
    ] = None,
    translations: Annotated[int, typer.Option(min=1, max=1_000_000, help="Of every source token.")] = 50,
    frequent: Annotated[int, typer.Option(min=0, help="Target tokens that are always allowed.")] = 300,
    pairs: Annotated[int, typer.Option(min=1, help="Learn from so many pairs at the most.")] = 1_000_000,
    threads: Annotated[int | None, typer.Option(min=1, help="Processors to use; all if not given.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Learn which target tokens each source token may need, so that decoding looks at no others.

    Writes RUN/shortlist; then translate, evaluate and others take --set search.shortlist=true.
    """
    from seqloom.corpus import Corpus
    from seqloom.loading import use_of
    from seqloom.machine import checked_threads
    from seqloom.progress import counter
    from seqloom.registry import architecture
    from seqloom.run import Run
    from seqloom.statistical.alignment.shortlist import coverage, make_shortlist

    opened = Run.open(run)
    config, tokenizers = opened.config(), opened.tokenizers()
    if architecture(config.model.name).counting or use_of(config) != "translate":
        raise SeqloomError(
            f"The model of {run} ({config.model.name}) can have no shortlist: it has no output layer, or it "
            "does not translate.",
            "shortlists are for neural models of pairs",
        )
    if tokenizers.frames:
        raise SeqloomError(f"The sources of {run} are frames, which have no translations.", "decode without it")
    whole = config.data.model_copy(update={"stream": False})
    if data is None:
        prepared = Corpus(whole, config.text).reopen(opened)
    else:
        other = whole.model_copy(update={"train": (data,), "source": None, "target": None, "weights": ()})
        prepared = Corpus(other, config.text).prepare(lambda text: print(text, file=sys.stderr), tokenizers)
    train, valid = prepared.store, prepared.valid
    step = -(-len(train) // pairs)  # spread over the whole corpus
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
        print(json_text({**facts, **found.as_dict(), "vocabulary": tokenizers.target.size}, indent=2))
        return
    print(f"learned from {len(learned):,} pairs: {translations} translations, {frequent} frequent tokens")
    print(
        f"on {found.pairs:,} validation pairs a list has {found.mean_size:,.0f} of {tokenizers.target.size:,} "
        f"tokens, and {100 * found.share:.1f} % of the references' tokens are on it"
    )
    print(f"use it: seqloom translate {run} FILE --set search.shortlist=true")
