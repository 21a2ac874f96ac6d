"""`seqloom backtranslate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import (
    Beam,
    Checkpoint,
    Device,
    Engine,
    Json,
    MinP,
    Sample,
    Seed,
    SetSearch,
    Strategy,
    Temperature,
    Threads,
    TopK,
    TopP,
    Typical,
)
from seqloom.cli.output import print_json


def backtranslate(
    run: Annotated[
        Path, typer.Argument(metavar="REVERSE_RUN", help="Run that translates the target language.")
    ],
    text: Annotated[
        str, typer.Argument(metavar="FILE", help="Target text, one sentence per line, or a table.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Table of synthetic pairs to write: .tsv or .jsonl.")
    ],
    tag: Annotated[
        str | None,
        typer.Option(metavar="TAG", help="Tag before each synthetic source, e.g. '<bt>'.", show_default="none"),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column of a table with the text: its header, or its number from 1.")
    ] = None,
    beam: Beam = None,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    engine: Engine = "auto",
    threads: Threads = None,
    set_: SetSearch = None,
    json_: Json = False,
    strategy: Strategy = None,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    typical: Typical = None,
    seed: Seed = None,
) -> None:
    """Make synthetic training pairs from target text.

    The reverse run translates each line; the output becomes the source and the line becomes the target. Lines
    with an empty or suspicious output are dropped and listed in FILE.report.json. If the work is interrupted,
    the same command continues it.

    Examples:
      seqloom backtranslate runs/de-en mono.de --out synthetic.tsv
      seqloom backtranslate runs/de-en mono.de --out bt.tsv --sample --tag '<bt>'
    """
    from seqloom.cli.strategy import choose_strategy
    from seqloom.distillation.backtranslation import backtranslate as run_backtranslation
    from seqloom.distillation.translation import TranslatorOptions
    from seqloom.run.config import strategy_options

    search, options = strategy_options(set_ or ())
    chosen = choose_strategy(locals(), named=strategy, options=options, search=search)
    found = run_backtranslation(
        run,
        text,
        out,
        decoding=TranslatorOptions(chosen, search, engine, device=device, threads=threads),
        tag=tag,
        column=column,
        checkpoint=checkpoint,
    )
    if json_:
        print_json(found.as_dict())
        return
    print(f"{out}: {found.data.summary()}")
    print(f"report: {found.report_file}")
    print("to train on real and synthetic pairs, half of each:")
    for command in found.commands:
        print(f"  {command}")
