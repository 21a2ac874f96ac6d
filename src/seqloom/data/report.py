"""Dropped and changed lines with their reasons: nothing leaves a corpus silently."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.files import write_json
from seqloom.types import Example

LONGEST_TEXT = 1000  # characters of a line that the report repeats; a longer one ends in an ellipsis
LISTED = 10_000  # lines that are listed of each reason; more are only counted, so that memory has a bound
SHOWN_REASONS = 4  # on the screen; the file has all


@dataclass(frozen=True, slots=True)
class ReportedLine:
    """A line that was dropped or changed, and why."""

    file: str
    line: int
    reason: str
    text: str
    dropped: bool = True  # False: it goes on, changed


@dataclass
class DataReport:
    """What happened to the lines of a corpus. Readers count every record in `total`, later steps drop.

    A reason stands for one thing: its lines are all dropped, or all changed.
    """

    total: int = 0
    lines: list[ReportedLine] = field(default_factory=list)  # the first of each reason
    counts: Counter[str] = field(default_factory=Counter)  # dropped and changed lines by reason

    @property
    def drops(self) -> Counter[str]:
        """Dropped lines by reason."""
        reasons = {line.reason for line in self.lines if line.dropped}
        return Counter({reason: count for reason, count in self.counts.items() if reason in reasons})

    @property
    def dropped(self) -> int:
        return self.drops.total()

    @property
    def kept(self) -> int:
        return self.total - self.dropped

    def add(self, other: DataReport) -> None:
        """Takes over what another report has counted and listed."""
        self.total += other.total
        self.lines += other.lines
        self.counts += other.counts

    def drop(self, example: Example, reason: str) -> None:
        """Lists a line that does not go on."""
        self._list(example, reason, dropped=True)

    def change(self, example: Example, reason: str) -> None:
        """Lists a line that goes on changed, e.g. truncated."""
        self._list(example, reason, dropped=False)

    def _list(self, example: Example, reason: str, *, dropped: bool) -> None:
        self.counts[reason] += 1
        if self.counts[reason] > LISTED:
            return
        text = example.source if example.target is None else f"{example.source}\t{example.target}"
        if len(text) > LONGEST_TEXT:
            text = text[: LONGEST_TEXT - 1] + "…"
        self.lines.append(ReportedLine(example.file, example.line, reason, text, dropped))

    def summary(self) -> str:
        """One line for the screen: how many were kept, and what became of the others."""
        common = self.counts.most_common(SHOWN_REASONS)
        reasons = [f"{count:,} {reason}" for reason, count in common]
        if rest := self.counts.total() - sum(count for _, count in common):
            reasons.append(f"{rest:,} for other reasons")
        text = f"{self.kept:,} of {self.total:,} lines kept"
        return f"{text} ({', '.join(reasons)})" if reasons else text

    def refuse_if_mostly_gone(self) -> None:
        """Raises when less than half of the lines is left: such a file was read in the wrong way."""
        if self.total == 0:
            raise SeqloomError("The data has no lines.", "give files with at least one pair")
        if 2 * self.dropped > self.total:
            reason, _ = self.drops.most_common(1)[0]
            first = next(line for line in self.lines if line.reason == reason)
            raise SeqloomError(
                f"{self.dropped:,} of {self.total:,} lines had to be dropped, mostly for: {reason} "
                f"(the first is {first.file}, line {first.line}: {first.text[:80]!r}).",
                "check the file's format and columns (data.format, data.source_column, data.target_column) "
                "and data.max_length",
            )

    def as_dict(self) -> dict[str, Any]:
        """The content of data-report.json."""
        return {
            "total": self.total,
            "kept": self.kept,
            "dropped": self.dropped,
            "counts": dict(self.counts.most_common()),
            "lines": [asdict(line) for line in self.lines],
        }

    def save(self, path: str | Path) -> None:
        """Writes data-report.json whole or not at all."""
        write_json(Path(path), self.as_dict())

    @classmethod
    def load(cls, path: str | Path) -> DataReport:
        """The report that `save` wrote."""
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        lines = [ReportedLine(**line) for line in values["lines"]]
        return cls(values["total"], lines, Counter(values["counts"]))


def clean(examples: Iterable[Example], report: DataReport) -> Iterator[Example]:
    """The examples that have something on both sides; the others go to the report."""
    for example in examples:
        if not example.source.strip():
            report.drop(example, "empty source")
        elif example.target is not None and not example.target.strip():
            report.drop(example, "empty target")
        else:
            yield example
