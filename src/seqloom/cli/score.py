"""`seqloom score`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import (
    Checkpoint,
    Device,
    Ensemble,
    EnsembleSpace,
    HeadsColumn,
    Json,
    Source,
    SourceColumn,
    Style,
    TagsColumn,
    Target,
    TargetColumn,
)
from seqloom.cli.options import Run as RunArgument
from seqloom.cli.output import print_json, write_json_line
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.data.config import DataConfig
    from seqloom.data.report import DataReport
    from seqloom.decode.ensemble import Space
    from seqloom.decode.scoring import SequenceScore, Totals
    from seqloom.run.config import Config
    from seqloom.types import Example

_CHUNK_LINES = 5000  # enough for batches of similar length, few enough to stream


class ScoredLine(NamedTuple):
    """Line of text and its score."""

    example: Example
    score: SequenceScore

    @property
    def text(self) -> str:
        """Scored text: the target, or the source of a line without target."""
        return self.example.source if self.example.target is None else self.example.target

    def as_dict(self) -> dict[str, Any]:
        pair = {"source": self.example.source, "target": self.example.target}
        return {
            "file": self.example.file,
            "line": self.example.line,
            **({"text": self.text} if self.example.target is None else pair),
            "log_prob": self.score.log_prob,
            "mean": self.score.mean,
            "tokens": list(self.score.tokens),
            "token_log_probs": list(self.score.log_probs),
        }


def score(
    run: RunArgument,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Tables of pairs, or text files for a language model."),
    ] = None,
    source: Source = None,
    target: Target = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    heads_column: HeadsColumn = None,
    tags_column: TagsColumn = None,
    worst: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Number of lines with the lowest log P per token to list."),
    ] = 5,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSONL file for the log P of every token of every line.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Figure of the worst lines, token by token: .png, .svg or .pdf."),
    ] = None,
    style: Style = "page",
    json_: Json = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    ensemble: Ensemble = None,
    ensemble_space: EnsembleSpace = "probability",
) -> None:
    """Compute the log-probability and perplexity of given text.

    Perplexity is reported per token, per word (separated by white space) and per byte of the original text;
    the end of a line counts as one of each. Masked language models have a pseudo-perplexity, which excludes
    the ends. Phrase models have the model score of the best derivation, which is not a log-probability;
    targets without a derivation are counted.

    Examples:
      seqloom score runs/de-en test.tsv --worst 10
      seqloom score runs/lm text.txt --out scores.jsonl
      seqloom score runs/lm text.txt --ensemble runs/ngram
    """
    from seqloom.cli.score_derivations import ScoringOptions, score_derivations
    from seqloom.data.report import DataReport, clean
    from seqloom.decode.scoring import Totals
    from seqloom.outputs import check_can_write, output
    from seqloom.progress import counter
    from seqloom.run.directory import Run
    from seqloom.run.load import has_own_search, load_scorer, use_of

    check_figure(plot, style)
    if out:
        check_can_write(out)
    config = Run.open(run).config()
    columns = {
        "source_column": source_column,
        "target_column": target_column,
        "heads_column": heads_column,
        "tags_column": tags_column,
    }
    data = _data(config, columns)
    _check_given(data, files or [], source, target, columns)
    report = DataReport()
    examples = clean(_read(data, files or [], source, target, report), report)
    if has_own_search(config) and not ensemble and ensemble_space == "probability":
        score_derivations(ScoringOptions(run, checkpoint, worst, out, plot, json_), examples, report)
        return
    scorer = load_scorer(
        run,
        ensemble=ensemble or (),
        space=cast("Space", ensemble_space),
        checkpoint=checkpoint,
        device=device,
    )
    totals, lowest = Totals(), list[ScoredLine]()
    with output(out) if out else nullcontext() as stream, counter("scored") as advance:
        while chunk := list(islice(examples, _CHUNK_LINES)):
            pairs = [("", e.source) if e.target is None else (e.source, e.target) for e in chunk]
            scores = scorer.score(pairs, heads=[e.heads for e in chunk], on_progress=advance)
            scored = [ScoredLine(*one) for one in zip(chunk, scores, strict=True)]
            for one in scored:
                totals.add(one.text, one.score)
                if stream:
                    write_json_line(stream, one.as_dict())
            lowest = nsmallest(worst, [*lowest, *scored], key=lambda one: one.score.mean)
        if not totals.lines:
            report.raise_if_mostly_dropped()
    if report.dropped:
        print(f"skipped: {report.summary()}; first: line {report.lines[0].line}", file=sys.stderr)
    if plot:
        from seqloom.inspect.surprisal import Surprisals

        shown = Surprisals([(one.score.tokens, one.score.log_probs) for one in lowest])
        write_figure(shown, plot, style=style)
    facts = _facts(totals, pseudo=use_of(config) == "fill", left_out=report.dropped)
    if json_:
        print_json({**facts, "worst": [one.as_dict() for one in lowest]})
    else:
        print("\n".join(_plain(facts, lowest)))


def _data(config: Config, columns: Mapping[str, str | None]) -> DataConfig:
    """Return the data options of the run, with the columns that are given."""
    from seqloom.run.load import use_of

    values: dict[str, str | None] = {name: value for name, value in columns.items() if value}
    if config.data.is_text and use_of(config) == "translate":  # trained to restore text: score pairs
        values = {"format": "auto", "target_column": None, **values}
    return config.data.model_copy(update=values)


def _check_given(
    data: DataConfig,
    files: Sequence[str],
    source: str | None,
    target: str | None,
    columns: Mapping[str, str | None],
) -> None:
    from seqloom.data.readers import check_has_columns, check_tables

    check_tables(files, columns)
    for file in files if data.is_text else ():
        check_has_columns(file, data.format, columns)
    if data.is_text and (source or target):
        raise SeqloomError(
            "This run was trained on plain text, which has no source and target.",
            "give text files, without --source and --target",
        )
    if bool(source) != bool(target) or bool(files) == bool(source):
        raise SeqloomError(
            "Files to score are missing or contradictory.", "give files, or both --source and --target"
        )


def _read(
    data: DataConfig, files: Sequence[str], source: str | None, target: str | None, report: DataReport
) -> Iterator[Example]:
    """Yield the lines to score: pairs, or texts if the run was trained on text."""
    from seqloom.data.context import with_context
    from seqloom.data.readers import columns_for, read, read_parallel, read_source

    if source and target:
        yield from with_context(read_parallel(source, target, report), data.context, report)
    named = dict.fromkeys(("source_column", "target_column", "heads_column", "tags_column"))
    for file in files:
        if data.is_text:
            column = data.source_column
            yield from read_source(file, format=data.format, source_column=column, report=report)
        else:
            columns = columns_for(data, file, named)
            pairs = read(file, format=data.format, **columns, languages=data.languages, report=report)
            yield from with_context(pairs, data.context, report)


def _facts(totals: Totals, *, pseudo: bool, left_out: int) -> dict[str, Any]:
    counts = {"token": totals.tokens, "word": totals.words, "byte": totals.bytes}
    perplexity = {unit: totals.perplexity(count) for unit, count in counts.items()}
    return {
        "lines": totals.lines,
        "left_out": left_out,
        "log_prob": totals.log_prob,
        **{f"{unit}s": count for unit, count in counts.items()},
        "unknown_tokens": totals.unknown,
        # Bits per byte need a probability of the entire text, which a masked model does not have.
        **({"pseudo_perplexity": perplexity} if pseudo else {"perplexity": perplexity}),
        **({} if pseudo else {"bits_per_byte": totals.bits_per_byte}),
    }


def _plain(facts: dict[str, Any], worst: Sequence[ScoredLine]) -> Iterator[str]:
    name = "perplexity" if "perplexity" in facts else "pseudo_perplexity"
    yield f"{'lines':<8}{facts['lines']:>12,}    log P {facts['log_prob']:,.1f}"
    for unit, value in facts[name].items():
        shown = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
        yield f"{unit + 's':<8}{facts[unit + 's']:>12,}    {name.replace('_', '-')} {shown} per {unit}"
    if "bits_per_byte" in facts:
        yield f"{'':<24}{facts['bits_per_byte']:.4g} bits per byte"
    if facts["unknown_tokens"]:
        yield f"{facts['unknown_tokens']:,} unknown tokens, all scored as one symbol: the perplexity is too low"
    if worst:
        yield "\nworst lines, log P per token:"
    several = len({one.example.file for one in worst}) > 1
    for one in worst:
        pair = one.text if one.example.target is None else f"{one.example.source} → {one.text}"
        file = f"{one.example.file} " if several else ""
        yield f"{one.score.mean:8.3f}  {file}line {one.example.line}: {pair}"
