"""`seqloom rerank`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import Column, SourceColumn
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:
    from seqloom.decode.rerank import Channel, NoisyChannel, Weights

_LINES_AT_A_TIME = 1000  # each has many candidates


def rerank(
    run: Annotated[Path, typer.Argument(help="A run directory: it finds the candidates.")],
    file: Annotated[
        str | None, typer.Argument(help="Lines to translate; standard input without it and --fit.")
    ] = None,
    reverse: Annotated[
        Path | None, typer.Option(help="A run that translates back: how probable is the source?")
    ] = None,
    lm: Annotated[
        Path | None, typer.Option(help="A language model of the target: how probable is the answer?")
    ] = None,
    nbest: Annotated[int, typer.Option(min=1, help="Candidates per line; the beam is as wide or wider.")] = 10,
    weights: Annotated[
        str | None, typer.Option(help="Of the reverse model, of the language model and per token: 0.5,0.3,0.2.")
    ] = None,
    fit: Annotated[str | None, typer.Option(help="A table of pairs: take the weights of best BLEU.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="All candidates with all scores, as JSON.")] = False,
    source_column: SourceColumn = None,
    checkpoint: Annotated[str | None, typer.Option(help="Of RUN; the best one if not given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    column: Column = None,
) -> None:
    """Choose among the n best answers by log P(y|x) + r log P(x|y) + l log P(y) + len |y|.

    The weights r,l,len are given, or fitted to validation data and printed. One answer per line, in order.
    """
    from seqloom.data.readers import check_has_columns, read_source
    from seqloom.data.report import DataReport
    from seqloom.decode.rerank import NoisyChannel
    from seqloom.loading import load_decoder, load_scorer
    from seqloom.outputs import check_can_write, output
    from seqloom.progress import counter

    if out:
        check_can_write(out)
    given = _given(weights, fit, reverse, lm)
    source_column = column if source_column is None else source_column
    check_has_columns(file or "-", "auto", {"source_column": source_column})
    channel = NoisyChannel(
        load_decoder(run, checkpoint=checkpoint, device=device),
        nbest=nbest,
        reverse=load_scorer(reverse, device=device, use="translate") if reverse else None,
        language=load_scorer(lm, device=device, use="generate") if lm else None,
    )
    if given is None:
        assert fit is not None
        given = _fit(run, channel, fit, sys.stderr.write if file else sys.stdout.write)
        if file is None:
            return
    report = DataReport()
    examples = read_source(file or "-", source_column=source_column, report=report)
    number = 0
    with output(out) as stream, counter("translated") as advance:
        while chunk := list(islice(examples, _LINES_AT_A_TIME)):
            lines, heads = [example.source for example in chunk], [example.heads for example in chunk]
            for line, found in zip(
                lines, channel.translate(lines, given, heads=heads, on_progress=advance), strict=True
            ):
                number += 1
                text = found[0].hypothesis.text.replace("\n", " ")
                stream.write((_json(number, line, found, given) if json_ else text) + "\n")
    if report.lines:
        print(f"left empty: {report.summary()}; the first is line {report.lines[0].line}", file=sys.stderr)


def _given(weights: str | None, fit: str | None, reverse: Path | None, lm: Path | None) -> Weights | None:
    """The weights that are given; None if they are to be fitted."""
    from seqloom.decode.rerank import Weights

    if reverse is None and lm is None:
        raise SeqloomError("There is no model to rerank by.", "give --reverse RUN, --lm RUN or both")
    if (weights is None) == (fit is None):
        raise SeqloomError(
            f"{'No weights are given' if fit is None else 'Weights are given, and a table to fit them to'}.",
            "give --weights r,l,len or --fit valid.tsv",
        )
    if weights is None:
        return None
    try:
        back, own, length = map(float, weights.split(","))
    except ValueError as error:
        raise SeqloomError(
            f"--weights {weights!r} are not numbers for the reverse model, the language model and a token.",
            "e.g. --weights 0.5,0.3,0.2",
        ) from error
    for option, model, value in (("reverse", reverse, back), ("lm", lm, own)):
        if value and model is None:
            raise SeqloomError(
                f"--{option} has the weight {value:g}, but no run.", f"give --{option} RUN, or 0"
            )
    return Weights(back, own, length)


def _fit(run: Path, channel: NoisyChannel, table: str, write: Callable[[str], Any]) -> Weights:
    """The weights whose answers have the best BLEU on the pairs of a table, told on the way."""
    from seqloom.decode.rerank import bleu_against, fit_weights
    from seqloom.progress import counter
    from seqloom.run import Run
    from seqloom.testset import read_testset

    test = read_testset(Run.open(run).config().data, [table])
    with counter("translated", total=len(test.sources)) as advance:
        found = channel.candidates(test.sources, heads=test.heads, on_progress=advance)
    quality = bleu_against(test.references)
    weights, best = fit_weights(found, quality)
    before = quality([many[0].hypothesis.text for many in found])
    write(f"--weights {weights.reverse:g},{weights.language:g},{weights.length:g}\n")
    write(f"BLEU {best:.2f} on {table}, {before:.2f} in the order of the search\n")
    return weights


def _json(number: int, source: str, found: Sequence[Channel], weights: Weights) -> str:
    """One line with all candidates, best first."""
    answers = [
        {
            **asdict(one.hypothesis),
            "score": one.score(weights),
            "reverse_log_prob": one.reverse,
            "language_log_prob": one.language,
        }
        for one in found
    ]
    return json_text({"line": number, "source": source, "hypotheses": answers})
