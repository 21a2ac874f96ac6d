"""`seqloom score` of a model with a search of its own: its best derivation of every target."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

if TYPE_CHECKING:
    from seqloom.data.report import DataReport
    from seqloom.statistical.phrase.scorer import Reached
    from seqloom.types import Example

_LINES_AT_A_TIME = 1000
_NOTE = "a model score is a weighted sum of features, not a log-probability: it has no perplexity"


@dataclass(frozen=True)
class Scorings:
    """What is asked for on the command line."""

    run: Path
    checkpoint: str | None
    worst: int
    out: Path | None
    plot: Path | None
    json: bool


class Line(NamedTuple):
    """A pair and how it was reached."""

    example: Example
    found: Reached

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": self.example.file,
            "line": self.example.line,
            "source": self.example.source,
            "target": self.example.target,
            "reachable": self.found.score is not None,
            "model_score": self.found.score,
            "mean": self.found.mean,
            "phrases": [asdict(phrase) for phrase in self.found.phrases],
            "features": self.found.features,
        }

    def __str__(self) -> str:
        return f"line {self.example.line}: {self.example.source} → {self.example.target}"


@dataclass
class _Sums:
    """Sums over lines; score and words are those of lines that were reached."""

    lines: int = 0
    unreachable: int = 0
    words: int = 0
    phrases: int = 0
    score: float = 0.0
    features: dict[str, float] = field(default_factory=dict)

    def add(self, found: Reached) -> None:
        self.lines += 1
        if found.score is None:
            self.unreachable += 1
            return
        self.score += found.score
        self.words += found.words
        self.phrases += len(found.phrases)
        for name, value in found.features.items():
            self.features[name] = self.features.get(name, 0.0) + value


def score_derivations(asked: Scorings, examples: Iterator[Example], report: DataReport) -> None:
    """Prints the model scores of given targets, the worst of them, and which cannot be said at all."""
    from seqloom.loading import load_derivations
    from seqloom.outputs import output
    from seqloom.progress import counter

    if asked.plot:
        raise SeqloomError(
            f"--plot draws log P token by token, and the model of {asked.run} has none.",
            "leave it out; --out has the score of every phrase",
        )
    scorer = load_derivations(asked.run, checkpoint=asked.checkpoint)
    sums, lowest, unsaid = _Sums(), list[Line](), list[Line]()
    with output(asked.out) if asked.out else nullcontext() as stream, counter("scored") as advance:
        while chunk := list(islice(examples, _LINES_AT_A_TIME)):
            found = scorer.score([(e.source, e.target or "") for e in chunk], on_progress=advance)
            lines = [Line(*one) for one in zip(chunk, found, strict=True)]
            for line in lines:
                sums.add(line.found)
                if stream:
                    stream.write(json_text(line.as_dict()) + "\n")
            reached = [line for line in lines if line.found.score is not None]
            lowest = nsmallest(asked.worst, [*lowest, *reached], key=lambda line: line.found.mean or 0.0)
            unsaid += [line for line in lines if line.found.score is None][: asked.worst - len(unsaid)]
        if not sums.lines:
            report.refuse_if_mostly_gone()
    if report.dropped:
        print(f"left out: {report.summary()}; the first is line {report.lines[0].line}", file=sys.stderr)
    if asked.json:
        print(json_text(_facts(sums, report, lowest, unsaid), indent=2))
    else:
        print("\n".join(_plain(sums, lowest, unsaid)))


def _facts(sums: _Sums, report: DataReport, lowest: Sequence[Line], unsaid: Sequence[Line]) -> dict[str, Any]:
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
        "unreachable_lines": [line.as_dict() for line in unsaid],
    }


def _plain(sums: _Sums, lowest: Sequence[Line], unsaid: Sequence[Line]) -> Iterator[str]:
    yield f"{'lines':<12}{sums.lines:>12,}    model score {sums.score:,.1f} (no log P: no perplexity)"
    share = 100 * sums.unreachable / max(1, sums.lines)
    yield f"{'unreachable':<12}{sums.unreachable:>12,}    {share:.1f} %: no derivation says them"
    yield f"{'words':<12}{sums.words:>12,}    {sums.score / max(1, sums.words):.4g} per word of what is reached"
    yield f"{'phrases':<12}{sums.phrases:>12,}    {sums.words / max(1, sums.phrases):.3g} words in each"
    if lowest:
        yield "\nworst lines, model score per word:"
    for line in lowest:
        yield f"{line.found.mean:8.3f}  {line}"
    if unsaid:
        yield f"\nthe first of {sums.unreachable:,} unreachable lines:"
    for line in unsaid:
        yield f"          {line}"
