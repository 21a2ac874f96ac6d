"""`seqloom score` for phrase models: the best derivation of each target."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seqloom.cli.output import print_json, write_json_line
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.data.report import DataReport
    from seqloom.statistical.phrase.scorer import DerivationScore
    from seqloom.types import Example

_CHUNK_LINES = 1000
_NOTE = "a model score is a weighted sum of features, not a log-probability, so there is no perplexity"


@dataclass(frozen=True)
class ScoringOptions:
    """Options of the command."""

    run: Path
    checkpoint: str | None
    worst: int
    out: Path | None
    plot: Path | None
    json: bool


class ScoredDerivation(NamedTuple):
    """Sentence pair and its best derivation."""

    example: Example
    derivation: DerivationScore

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": self.example.file,
            "line": self.example.line,
            "source": self.example.source,
            "target": self.example.target,
            "reachable": self.derivation.score is not None,
            "model_score": self.derivation.score,
            "mean": self.derivation.mean,
            "phrases": [asdict(phrase) for phrase in self.derivation.phrases],
            "features": self.derivation.features,
        }

    def __str__(self) -> str:
        return f"line {self.example.line}: {self.example.source} → {self.example.target}"


@dataclass
class _DerivationTotals:
    """Totals over lines; score and words include only lines with a derivation."""

    lines: int = 0
    unreachable: int = 0
    words: int = 0
    phrases: int = 0
    score: float = 0.0
    features: dict[str, float] = field(default_factory=dict)

    def add(self, derivation: DerivationScore) -> None:
        self.lines += 1
        if derivation.score is None:
            self.unreachable += 1
            return
        self.score += derivation.score
        self.words += derivation.words
        self.phrases += len(derivation.phrases)
        for name, value in derivation.features.items():
            self.features[name] = self.features.get(name, 0.0) + value


def score_derivations(options: ScoringOptions, examples: Iterator[Example], report: DataReport) -> None:
    """Print the model score of the given targets, the worst lines, and lines without a derivation."""
    from seqloom.outputs import output
    from seqloom.progress import counter
    from seqloom.run.load import load_derivations

    if options.plot:
        raise SeqloomError(
            f"--plot needs token probabilities, which the model of {options.run} does not have.",
            "leave out --plot; --out writes the score of every phrase",
        )
    scorer = load_derivations(options.run, checkpoint=options.checkpoint)
    sums, lowest, unreachable = _DerivationTotals(), list[ScoredDerivation](), list[ScoredDerivation]()
    with output(options.out) if options.out else nullcontext() as stream, counter("scored") as advance:
        while chunk := list(islice(examples, _CHUNK_LINES)):
            derivations = scorer.score([(e.source, e.target or "") for e in chunk], on_progress=advance)
            lines = [ScoredDerivation(*one) for one in zip(chunk, derivations, strict=True)]
            for line in lines:
                sums.add(line.derivation)
                if stream:
                    write_json_line(stream, line.as_dict())
            reached = [line for line in lines if line.derivation.score is not None]
            lowest = nsmallest(options.worst, [*lowest, *reached], key=lambda line: line.derivation.mean or 0.0)
            missing = [line for line in lines if line.derivation.score is None]
            unreachable += missing[: options.worst - len(unreachable)]
        if not sums.lines:
            report.raise_if_mostly_dropped()
    if report.dropped:
        print(f"skipped: {report.summary()}; first: line {report.lines[0].line}", file=sys.stderr)
    if options.json:
        print_json(_facts(sums, report, lowest, unreachable))
    else:
        print("\n".join(_plain(sums, lowest, unreachable)))


def _facts(
    sums: _DerivationTotals,
    report: DataReport,
    lowest: Sequence[ScoredDerivation],
    unreachable: Sequence[ScoredDerivation],
) -> dict[str, Any]:
    return {
        "lines": sums.lines,
        "left_out": report.dropped,
        "unreachable": sums.unreachable,
        "model_score": sums.score,
        "note": _NOTE,
        "words": sums.words,
        "phrases": sums.phrases,
        "features": sums.features,
        "worst": [line.as_dict() for line in lowest],
        "unreachable_lines": [line.as_dict() for line in unreachable],
    }


def _plain(
    sums: _DerivationTotals, lowest: Sequence[ScoredDerivation], unreachable: Sequence[ScoredDerivation]
) -> Iterator[str]:
    yield f"{'lines':<12}{sums.lines:>12,}    model score {sums.score:,.1f} (not a log-probability)"
    share = 100 * sums.unreachable / max(1, sums.lines)
    yield f"{'unreachable':<12}{sums.unreachable:>12,}    {share:.1f} % have no derivation"
    yield f"{'words':<12}{sums.words:>12,}    score {sums.score / max(1, sums.words):.4g} per reachable word"
    yield f"{'phrases':<12}{sums.phrases:>12,}    {sums.words / max(1, sums.phrases):.3g} words per phrase"
    if lowest:
        yield "\nworst lines, model score per word:"
    for line in lowest:
        yield f"{line.derivation.mean:8.3f}  {line}"
    if unreachable:
        yield f"\nfirst of {sums.unreachable:,} unreachable lines:"
    for line in unreachable:
        yield f"          {line}"
