"""Metrics by name, and their scores with a signature and a bootstrap interval.

A metric is a sum of per-sentence statistics and a function of the sum. Everything else follows from that: the
interval and the paired test resample the sentences' statistics and never look at the text again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from seqloom.errors import SeqloomError, unknown
from seqloom.evaluate import sacre
from seqloom.evaluate.edits import ErrorRate, ExactMatch
from seqloom.evaluate.resample import Matrix, interval, resampled_totals
from seqloom.text.normalize import check_unicode

SEED = 12345
BOOTSTRAP = 1000


class Metric(Protocol):
    """What a metric must say of itself; see `METRICS` for those that can be chosen by name."""

    @property
    def name(self) -> str: ...  # as the user writes it
    @property
    def label(self) -> str: ...  # as a table shows it
    @property
    def higher_is_better(self) -> bool: ...

    def statistics(self, hypothesis: str, references: Sequence[str]) -> Sequence[float]:
        """What one sentence adds to the sum."""
        ...

    def compute(self, total: Matrix) -> float:
        """The score of a sum of statistics, (K,)."""
        ...

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        """All that another person needs to get the same number; nrefs is None when it varies."""
        ...


@dataclass(frozen=True)
class Score:
    """A metric's value on a corpus, in percent or points of 100, and its 95 % bootstrap interval."""

    name: str
    value: float
    low: float | None  # None: no bootstrap was asked for
    high: float | None
    signature: str
    count: int  # sentences
    higher_is_better: bool
    label: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        shown = f"{self.label} {self.value:.1f}"
        return shown if self.low is None else f"{shown} [{self.low:.1f}, {self.high:.1f}]"


METRICS: dict[str, Callable[[], Metric]] = {
    "bleu": sacre.bleu,
    **{f"bleu:{name}": partial(sacre.bleu, name) for name in sacre.TOKENIZERS},
    "chrf": sacre.chrf,
    "chrf++": sacre.chrf_plus_plus,
    "ter": sacre.ter,
    "exact": lambda: ExactMatch("exact", "exact", higher_is_better=True),
    "exact:raw": lambda: ExactMatch("exact:raw", "exact:raw", higher_is_better=True, raw=True),
    "error": lambda: ExactMatch("error", "error", higher_is_better=False),
    "per": lambda: ErrorRate("per", "PER", unit="space"),
    "wer": lambda: ErrorRate("wer", "WER", unit="space"),
    "cer": lambda: ErrorRate("cer", "CER", unit="char"),
}


def parse_metrics(names: str) -> list[Metric]:
    """The metrics of a list such as `bleu,chrf,exact`, each once and in that order."""
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    if not wanted:
        raise SeqloomError("No metric was named.", f"name one or more of {', '.join(METRICS)}")
    for name in wanted:
        if name not in METRICS:
            raise unknown("metric", name, METRICS)
    return [METRICS[name]() for name in dict.fromkeys(wanted)]


def one_metric(metric: str | Metric) -> Metric:
    """The metric itself, or the only one of that name."""
    if not isinstance(metric, str):
        return metric
    chosen = parse_metrics(metric)
    if len(chosen) > 1:
        raise SeqloomError(f"Only one metric can be used here, got {metric!r}.", "call once per metric")
    return chosen[0]


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: str | Sequence[Metric],
    *,
    bootstrap: int = BOOTSTRAP,
    seed: int = SEED,
) -> list[Score]:
    """The score of each metric; `references` holds one or more per hypothesis, a plain string being one."""
    answers = checked_references(hypotheses, references)
    if bootstrap < 0:
        raise SeqloomError(f"The number of bootstrap samples is {bootstrap}.", "use 0 for none, or 1000")
    chosen = parse_metrics(metrics) if isinstance(metrics, str) else metrics
    return [
        score(metric, statistics_of(metric, hypotheses, answers), answers, bootstrap, seed) for metric in chosen
    ]


def score(
    metric: Metric, statistics: Matrix, references: Sequence[Sequence[str]], bootstrap: int, seed: int
) -> Score:
    """The score and interval of sentences whose statistics, (N, K), are known."""
    low, high = None, None
    if bootstrap:
        totals = resampled_totals(statistics, bootstrap=bootstrap, seed=seed)
        low, high = interval(computed(metric, totals))
    counts = {len(answers) for answers in references}
    nrefs = counts.pop() if len(counts) == 1 else None
    return Score(
        name=metric.name,
        value=metric.compute(statistics.sum(axis=0)),
        low=low,
        high=high,
        signature=metric.signature(nrefs=nrefs, bootstrap=bootstrap, seed=seed),
        count=len(statistics),
        higher_is_better=metric.higher_is_better,
        label=metric.label,
    )


def statistics_of(metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Matrix:
    """(N, K): the statistics of every sentence."""
    pairs = zip(hypotheses, references, strict=True)
    return np.array([metric.statistics(guess, answers) for guess, answers in pairs], dtype=np.float64)


def computed(metric: Metric, totals: Matrix) -> Matrix:
    """(N,): the score of every row of totals."""
    return np.array([metric.compute(total) for total in totals])


def checked_references(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[str]]:
    """The references as lists, one list per hypothesis; an error when they do not belong together."""
    if len(hypotheses) != len(references):
        raise SeqloomError(
            f"There are {len(hypotheses)} hypotheses but references for {len(references)} sentences.",
            "give one hypothesis, and one list of references, per sentence",
        )
    if not hypotheses:
        raise SeqloomError(
            "There is nothing to evaluate: no hypothesis was given.", "check that the file has lines"
        )
    # A string is itself a sequence of strings; taken as such, every letter would be a reference.
    answers = [[given] if isinstance(given, str) else list(given) for given in references]
    for number, given in enumerate(answers, start=1):
        if not given:
            raise SeqloomError(f"Sentence {number} has no reference.", "leave it out or give it one")
        for text in (hypotheses[number - 1], *given):
            check_unicode(text)
    return answers
