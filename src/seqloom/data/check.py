"""Corpus statistics and suspicious lines, in one pass that stores numbers and hashes, but no text."""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from seqloom.data.config import DataConfig
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport
from seqloom.data.split import fingerprint
from seqloom.types import Example

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXAMPLES = 5  # lines shown per finding
RATIO_DEVIATIONS = 5.0  # robust standard deviations of the log length ratio
RATIO_FACTOR = 2.0  # and at least this factor away from the typical ratio

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ufeff\ufffd]")
LATIN = r"A-Za-zÀ-ÖØ-öø-ɏḀ-ỿ"
OTHER = r"\u0370-\u03ff\u0400-\u052f\u0530-\u058f\u0590-\u05ff\u0600-\u06ff"  # Greek, Cyrillic … Arabic
MIXED = re.compile(f"[{LATIN}][{OTHER}]|[{OTHER}][{LATIN}]")


@dataclass
class CheckFinding:
    """Number of lines with a finding, and the first of them."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if len(self.lines) < EXAMPLES:
            self.lines.append(line)


@dataclass(frozen=True)
class LengthSummary:
    """Distribution of lengths; the histogram has one bin per power of two (0, 1, 2-3, 4-7 …)."""

    min: int
    median: float
    mean: float
    p95: float
    max: int
    histogram: dict[str, int]


@dataclass(frozen=True)
class CorpusCheck:
    """Statistics and findings of one corpus."""

    name: str
    lines: int
    pairs: int  # usable lines: well formed, with both sides not empty
    distinct_sources: int
    distinct_pairs: int
    lengths: dict[str, LengthSummary]
    typical_ratio: float  # median of target characters / source characters
    findings: dict[str, CheckFinding]
    malformed: dict[str, CheckFinding]  # malformed lines by reason


@dataclass(frozen=True)
class Overlap:
    """Overlap of two corpora; `lines` are those of the second one."""

    first: str
    second: str
    shared_sources: int
    shared_pairs: int
    share_of_second: float  # fraction of its lines whose source is in the first
    lines: list[int]


@dataclass(frozen=True)
class CheckResult:
    """Checks of each corpus, and overlap of each two corpora."""

    corpora: list[CorpusCheck]
    overlaps: list[Overlap]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check(corpora: Sequence[DataConfig]) -> CheckResult:
    """Check the `train` part of each corpus, and the overlap of each two corpora."""
    names = [" | ".join(c.train) or f"{c.source} | {c.target}" for c in corpora]
    statistics = [_CorpusStatistics() for _ in corpora]
    checks = []
    for name, config, corpus in zip(names, corpora, statistics, strict=True):
        report = DataReport()
        corpus.read(read_corpus(config, "train", report))
        checks.append(corpus.result(name, report))
    pairs = itertools.combinations(zip(names, statistics, strict=True), 2)
    return CheckResult(checks, [_overlap(*first, *second) for first, second in pairs])


class _CorpusStatistics:
    """Numbers for each usable line, 40 bytes per line, and findings that concern single lines."""

    def __init__(self) -> None:
        self.line, self.source, self.pair = array("Q"), array("Q"), array("Q")
        kinds = ("source_characters", "target_characters", "source_words", "target_words")
        self.lengths = {kind: array("I") for kind in kinds}
        self.findings = {
            name: CheckFinding() for name in ("empty", "identical", "control_characters", "mixed_scripts")
        }

    def read(self, examples: Iterable[Example]) -> None:
        for example in examples:
            source, target = example.source, example.target or ""
            if not source.strip() or not target.strip():
                self.findings["empty"].add(example.line)
                continue
            self._measure(example.line, source, target)
            self._inspect(example.line, source, target)

    def _measure(self, line: int, source: str, target: str) -> None:
        self.line.append(line)
        left, right = fingerprint(source), fingerprint(target)
        self.source.append(left)
        self.pair.append((31 * left + right) % 2**64)  # a plain sum would not distinguish (a, b) from (b, a)
        lengths = (len(source), len(target), len(source.split()), len(target.split()))
        for column, length in zip(self.lengths.values(), lengths, strict=True):
            column.append(length)

    def _inspect(self, line: int, source: str, target: str) -> None:
        if source.strip() == target.strip():
            self.findings["identical"].add(line)
        if CONTROL.search(source) or CONTROL.search(target):
            self.findings["control_characters"].add(line)
        if MIXED.search(source) or MIXED.search(target):
            self.findings["mixed_scripts"].add(line)

    def result(self, name: str, report: DataReport) -> CorpusCheck:
        import numpy as np

        sources, pairs = np.asarray(self.source), np.asarray(self.pair)
        _, first_of_pair = np.unique(pairs, return_index=True)
        first_of_pair.sort()  # file order, so that the first lines are shown
        repeated = np.ones(len(pairs), bool)
        repeated[first_of_pair] = False
        # Among distinct pairs, a repeated source has another target.
        distinct, start, count = np.unique(sources[first_of_pair], return_index=True, return_counts=True)
        several = first_of_pair[start[count > 1]]
        ratio, outliers = _ratio_outliers(*list(self.lengths.values())[:2])
        malformed = CheckFinding(report.dropped, [line.line for line in report.lines[:EXAMPLES]])
        return CorpusCheck(
            name=name,
            lines=report.total,
            pairs=len(pairs),
            distinct_sources=len(distinct),
            distinct_pairs=len(first_of_pair),
            lengths={kind: _distribution(values) for kind, values in self.lengths.items()}
            if len(pairs)
            else {},
            typical_ratio=ratio,
            findings={
                "malformed": malformed,
                **self.findings,
                "duplicate_pairs": self._finding(np.flatnonzero(repeated)),
                "sources_with_several_targets": self._finding(np.sort(several)),
                "length_ratio_outliers": self._finding(outliers),
            },
            malformed=_by_reason(report),
        )

    def _finding(self, positions: NDArray[np.int64]) -> CheckFinding:
        return CheckFinding(len(positions), [self.line[i] for i in positions[:EXAMPLES]])


def _by_reason(report: DataReport) -> dict[str, CheckFinding]:
    """Return the malformed lines by reason, most frequent reason first."""
    found = {reason: CheckFinding(count) for reason, count in report.drops.most_common()}
    for line in report.lines:
        finding = found[line.reason]
        if len(finding.lines) < EXAMPLES:
            finding.lines.append(line.line)
    return found


def _ratio_outliers(source: array[int], target: array[int]) -> tuple[float, NDArray[np.int64]]:
    """Return the typical ratio of characters, and the positions of outliers.

    An outlier is more than RATIO_DEVIATIONS robust standard deviations (1.4826 x median absolute deviation) of
    the log ratio away from the typical ratio, and also above RATIO_FACTOR or below 1/RATIO_FACTOR times it.
    """
    import numpy as np

    if not source:
        return 0.0, np.zeros(0, np.int64)
    logs = np.log(np.asarray(target) / np.asarray(source))
    typical = float(np.median(logs))
    distance = np.abs(logs - typical)
    limit = max(RATIO_DEVIATIONS * 1.4826 * float(np.median(distance)), float(np.log(RATIO_FACTOR)))
    return float(np.exp(typical)), np.flatnonzero(distance > limit)


def _distribution(values: array[int]) -> LengthSummary:
    import numpy as np

    numbers = np.asarray(values)
    powers = np.bincount(np.ceil(np.log2(numbers + 1.0)).astype(int))
    names = ("0", "1", *(f"{2 ** (i - 1)}-{2**i - 1}" for i in range(2, len(powers))))
    return LengthSummary(
        min=int(numbers.min()),
        median=float(np.median(numbers)),
        mean=round(float(numbers.mean()), 2),
        p95=float(np.percentile(numbers, 95)),
        max=int(numbers.max()),
        histogram={name: int(n) for name, n in zip(names, powers, strict=False) if n},
    )


def _overlap(first: str, one: _CorpusStatistics, second: str, two: _CorpusStatistics) -> Overlap:
    import numpy as np

    shared = np.isin(np.asarray(two.source), np.asarray(one.source))
    return Overlap(
        first=first,
        second=second,
        shared_sources=len(np.intersect1d(one.source, two.source)),
        shared_pairs=len(np.intersect1d(one.pair, two.pair)),
        share_of_second=round(float(shared.mean()), 4) if len(shared) else 0.0,
        lines=[two.line[i] for i in np.flatnonzero(shared)[:EXAMPLES]],
    )
