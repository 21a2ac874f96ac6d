"""`seqloom rerank`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import Checkpoint, Column, Device, OutputFile, SourceColumn
from seqloom.cli.output import write_json_line
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.decode.rerank import Channel, ChannelWeights, NoisyChannel

_CHUNK_LINES = 1000  # small, because each line has many candidates


def rerank(
    run: Annotated[Path, typer.Argument(help="Run directory of the model that generates the candidates.")],
    file: Annotated[
        str | None,
        typer.Argument(help="Text file to translate.", show_default="standard input; none with --fit"),
    ] = None,
    reverse: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Run that translates in the opposite direction, for log P(x|y)."),
    ] = None,
    lm: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Language model of the target side, for log P(y).")
    ] = None,
    nbest: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of candidates per line, and minimum beam size.")
    ] = 10,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="R,L,LEN", help="Weights of reverse model, language model and length, e.g. 0.5,0.3,0.2."
        ),
    ] = None,
    direct: Annotated[
        float,
        typer.Option(min=0, metavar="W", help="Weight of log P(y|x); 0 ranks by the noisy channel alone."),
    ] = 1.0,
    fit: Annotated[
        str | None, typer.Option(metavar="FILE", help="Table of pairs: find the weights with the best BLEU.")
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line, with the scores of all candidates.")
    ] = False,
    source_column: SourceColumn = None,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    out: OutputFile = None,
    column: Column = None,
) -> None:
    """Rerank n-best translations with a noisy-channel model.

    Chooses the candidate with the highest w log P(y|x) + r log P(x|y) + l log P(y) + len |y|. The weights r, l
    and len are given, or fitted on validation data and printed; w is 1, or that of --direct.

    Examples:
      seqloom rerank runs/de-en --reverse runs/en-de --lm runs/lm --fit valid.tsv
      seqloom rerank runs/de-en test.de --reverse runs/en-de --weights 0.5,0,0.2
    """
    from seqloom.data.context import with_context
    from seqloom.data.readers import check_has_columns, read_source
    from seqloom.data.report import DataReport
    from seqloom.decode.rerank import NoisyChannel
    from seqloom.outputs import check_can_write, output
    from seqloom.progress import counter
    from seqloom.run.directory import Run
    from seqloom.run.load import load_decoder, load_scorer

    if out:
        check_can_write(out)
    chosen = _parse_weights(weights, fit, reverse, lm, direct)
    source_column = column if source_column is None else source_column
    check_has_columns(file or "-", "auto", {"source_column": source_column})
    channel = NoisyChannel(
        load_decoder(run, checkpoint=checkpoint, device=device),
        nbest=nbest,
        reverse=load_scorer(reverse, device=device, use="translate") if reverse else None,
        language=load_scorer(lm, device=device, use="generate") if lm else None,
    )
    if chosen is None:
        assert fit is not None
        chosen = _fit(run, channel, fit, direct, sys.stderr.write if file else sys.stdout.write)
        if file is None:
            return
    report = DataReport()
    examples = read_source(file or "-", source_column=source_column, report=report)
    examples = with_context(examples, Run.open(run).config().data.context, report)
    number = 0
    with output(out) as stream, counter("translated") as advance:
        while chunk := list(islice(examples, _CHUNK_LINES)):
            lines, heads = [example.source for example in chunk], [example.heads for example in chunk]
            ranked = channel.translate(lines, chosen, heads=heads, on_progress=advance)
            for line, candidates in zip(lines, ranked, strict=True):
                number += 1
                if json_:
                    write_json_line(stream, _as_dict(number, line, candidates, chosen))
                else:
                    stream.write(candidates[0].hypothesis.text.replace("\n", " ") + "\n")
    if report.lines:
        print(f"empty output: {report.summary()}; first: line {report.lines[0].line}", file=sys.stderr)


def _parse_weights(
    weights: str | None, fit: str | None, reverse: Path | None, lm: Path | None, direct: float
) -> ChannelWeights | None:
    """Return the given weights, or None if they are to be fitted."""
    from seqloom.decode.rerank import ChannelWeights

    if reverse is None and lm is None:
        raise SeqloomError("No model to rerank with.", "give --reverse RUN, --lm RUN or both")
    if (weights is None) == (fit is None):
        raise SeqloomError(
            "No weights given." if fit is None else "--weights and --fit exclude each other.",
            "give --weights R,L,LEN or --fit FILE",
        )
    if weights is None:
        return None
    try:
        reverse_weight, lm_weight, length_weight = map(float, weights.split(","))
    except ValueError as error:
        raise SeqloomError(
            f"--weights must be three numbers, for reverse model, language model and length, got {weights!r}.",
            "e.g. --weights 0.5,0.3,0.2",
        ) from error
    for option, model, value in (("reverse", reverse, reverse_weight), ("lm", lm, lm_weight)):
        if value and model is None:
            raise SeqloomError(
                f"--weights has {value:g} for --{option}, which is not given.",
                f"add --{option} RUN, or use weight 0",
            )
    return ChannelWeights(reverse_weight, lm_weight, length_weight, direct)


def _fit(
    run: Path, channel: NoisyChannel, table: str, direct: float, write: Callable[[str], Any]
) -> ChannelWeights:
    """Return the weights with the best BLEU on the pairs of a table, and print both."""
    from seqloom.data.testset import read_testset
    from seqloom.decode.rerank import bleu_against, fit_weights
    from seqloom.progress import counter
    from seqloom.run.directory import Run

    test = read_testset(Run.open(run).config().data, [table])
    with counter("translated", total=len(test.sources)) as advance:
        candidates = channel.candidates(test.sources, heads=test.heads, on_progress=advance)
    quality = bleu_against(test.references)
    weights, best = fit_weights(candidates, quality, direct=direct)
    before = quality([ranked[0].hypothesis.text for ranked in candidates])
    write(f"--weights {weights.reverse:g},{weights.language:g},{weights.length:g}\n")
    write(f"BLEU {best:.2f} on {table}, {before:.2f} without reranking\n")
    return weights


def _as_dict(
    number: int, source: str, candidates: Sequence[Channel], weights: ChannelWeights
) -> dict[str, Any]:
    """Return a line with all candidates, best first."""
    hypotheses = [
        {
            **asdict(candidate.hypothesis),
            "score": candidate.score(weights),
            "reverse_log_prob": candidate.reverse,
            "language_log_prob": candidate.language,
        }
        for candidate in candidates
    ]
    return {"line": number, "source": source, "hypotheses": hypotheses}
