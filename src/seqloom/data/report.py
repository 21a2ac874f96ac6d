"""Report of dropped and changed lines with their reasons: no line is dropped silently."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.files import write_json
from seqloom.types import Example

LONGEST_TEXT = 1000  # characters of a line in the report; longer lines end with an ellipsis
LISTED = 10_000  # lines listed per reason; more are only counted, which bounds memory
SHOWN_LANGUAGES = 20  # in an error message
SHOWN_REASONS = 4  # in the summary; the file has all


@dataclass(frozen=True, slots=True)
class ReportedLine:
    """Dropped or changed line with its reason."""

    file: str
    line: int
    reason: str
    text: str
    dropped: bool = True  # False: kept, but changed
    skipped: bool = False  # dropped by rule, such as a fuzzy translation: no sign of wrong options


@dataclass
class DataReport:
    """Counts of read, dropped and changed lines. Readers count each record in `total`; later steps drop some.

    All lines with the same reason are dropped, or all are changed.
    """

    total: int = 0
    lines: list[ReportedLine] = field(default_factory=list)  # the first lines of each reason
    counts: Counter[str] = field(default_factory=Counter)  # dropped and changed lines by reason
    languages: dict[str, None] = field(default_factory=dict)  # the first ones of units in other languages

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
        """Add the counts and lines of another report."""
        self.total += other.total
        self.lines += [line for line in other.lines if self.counts[line.reason] < LISTED]
        self.counts += other.counts
        self._add_languages(*other.languages)

    def drop(self, example: Example, reason: str) -> None:
        """Record a dropped line."""
        self._record(example, reason, dropped=True)

    def moved(self, file: str) -> DataReport:
        """Return the report with another name of the file."""
        return replace(self, lines=[replace(line, file=file) for line in self.lines])

    def skip(self, example: Example, reason: str, languages: str = "") -> None:
        """Record a unit that is not a pair, such as an untranslated one; `languages` are those of its file."""
        self._record(example, reason, dropped=True, skipped=True)
        if languages:
            self._add_languages(languages)

    def _add_languages(self, *languages: str) -> None:
        for one in languages:
            if len(self.languages) < SHOWN_LANGUAGES:
                self.languages[one] = None

    def change(self, example: Example, reason: str) -> None:
        """Record a line that is kept, but changed, e.g. truncated."""
        self._record(example, reason, dropped=False)

    def _record(self, example: Example, reason: str, *, dropped: bool, skipped: bool = False) -> None:
        self.counts[reason] += 1
        if self.counts[reason] > LISTED:
            return
        text = example.source if example.target is None else f"{example.source}\t{example.target}"
        if len(text) > LONGEST_TEXT:
            text = text[: LONGEST_TEXT - 1] + "…"
        self.lines.append(ReportedLine(example.file, example.line, reason, text, dropped, skipped))

    def summary(self) -> str:
        """Return a one-line summary: the number of lines kept, and the reasons for the others."""
        common = self.counts.most_common(SHOWN_REASONS)
        reasons = [f"{count:,} {reason}" for reason, count in common]
        if rest := self.counts.total() - sum(count for _, count in common):
            reasons.append(f"{rest:,} for other reasons")
        text = f"{self.kept:,} of {self.total:,} lines kept"
        return f"{text} ({', '.join(reasons)})" if reasons else text

    def raise_if_mostly_dropped(self) -> None:
        """Raise if more than half of the lines are dropped, which indicates wrong options."""
        if self.total == 0:
            raise SeqloomError("The data is empty.", "give files with at least one pair")
        skips = {line.reason for line in self.lines if line.skipped}
        faults = Counter({reason: count for reason, count in self.drops.items() if reason not in skips})
        if self.total == self.drops.total() - faults.total():
            raise self.no_pairs("The data")
        if 2 * faults.total() > self.total - (self.drops.total() - faults.total()):
            reason, _ = faults.most_common(1)[0]
            first = next(line for line in self.lines if line.reason == reason)
            raise SeqloomError(
                f"{faults.total():,} of {self.total:,} lines were dropped. Most frequent reason: {reason} "
                f"(first in {first.file}, line {first.line}: {first.text[:80]!r}).",
                "check the format and the columns (data.format, data.source_column, data.target_column) "
                "and data.max_length",
            )

    def no_pairs(self, name: str) -> SeqloomError:
        """Return the error that data has no pairs, with the languages that it has instead."""
        found = "; ".join(self.languages)
        return SeqloomError(
            f"{name} has no pairs: {self.summary()}.{f' Languages of the files: {found}.' if found else ''}",
            "name languages of the files, e.g. --languages en-de" if found else "check the files",
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the content of data-report.json."""
        return {
            "total": self.total,
            "kept": self.kept,
            "dropped": self.dropped,
            "counts": dict(self.counts.most_common()),
            "lines": [asdict(line) for line in self.lines],
        }

    def save(self, path: str | Path) -> None:
        """Write data-report.json atomically."""
        write_json(Path(path), self.as_dict())

    @classmethod
    def load(cls, path: str | Path) -> DataReport:
        """Load the report that `save` wrote."""
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        lines = [ReportedLine(**line) for line in values["lines"]]
        return cls(values["total"], lines, Counter(values["counts"]))


def clean(examples: Iterable[Example], report: DataReport) -> Iterator[Example]:
    """Yield the examples without an empty side; the others go to the report."""
    for example in examples:
        if not example.source.strip():
            report.drop(example, "empty source")
        elif example.target is not None and not example.target.strip():
            report.drop(example, "empty target")
        else:
            yield example
