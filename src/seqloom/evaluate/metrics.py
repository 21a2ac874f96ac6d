"""Metrics by name, and scores with a signature and a bootstrap interval.

A metric is a sum of per-sentence statistics and a function of the sum. Everything else follows from that: the
interval and the paired test resample the per-sentence statistics and do not need the text. Metrics whose
statistics depend on the other sentences have neither: they are not a `SentenceMetric`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from seqloom.errors import SeqloomError, unknown
from seqloom.evaluate import sacre
from seqloom.evaluate.diversity import DistinctNgrams
from seqloom.evaluate.edits import ErrorRate, ExactMatch
from seqloom.evaluate.labels import Accuracy, MacroF1
from seqloom.evaluate.resample import Matrix, interval, resampled_totals
from seqloom.evaluate.rouge import Rouge
from seqloom.evaluate.sentence_metric import SentenceMetric
from seqloom.evaluate.vectors import NormalisedSquaredError
from seqloom.text.normalize import check_unicode

SEED = 12345
BOOTSTRAP = 1000


class Metric(Protocol):
    """Interface of all metrics; `METRICS` lists those available by name."""

    @property
    def name(self) -> str: ...  # in options
    @property
    def label(self) -> str: ...  # in tables
    @property
    def higher_is_better(self) -> bool: ...

    def corpus_statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Matrix:
        """Return the statistics that each sentence adds to the sum, (N, K)."""
        ...

    def compute(self, total: Matrix) -> float:
        """Return the score of a sum of statistics, (K,)."""
        ...

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        """Return all settings needed to reproduce the score; nrefs is None if it varies."""
        ...


@dataclass(frozen=True)
class Score:
    """Value of a metric on a corpus, in percent or points out of 100, with its 95 % bootstrap interval."""

    name: str
    value: float
    low: float | None  # None: without bootstrap
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
    "rouge1": lambda: Rouge("rouge1", "ROUGE-1", higher_is_better=True, size=1),
    "rouge2": lambda: Rouge("rouge2", "ROUGE-2", higher_is_better=True, size=2),
    "rougel": lambda: Rouge("rougel", "ROUGE-L", higher_is_better=True),
    "accuracy": lambda: Accuracy("accuracy", "accuracy", higher_is_better=True),
    "macro-f1": MacroF1,
    "nmse": lambda: NormalisedSquaredError("nmse", "NMSE", higher_is_better=False),
    "distinct1": lambda: DistinctNgrams("distinct1", "distinct-1", size=1),
    "distinct2": lambda: DistinctNgrams("distinct2", "distinct-2", size=2),
}


def parse_metrics(names: str) -> list[Metric]:
    """Return the metrics of a list such as `bleu,chrf,exact`, in this order and without duplicates."""
    chosen = [name.strip().lower() for name in names.split(",") if name.strip()]
    if not chosen:
        raise SeqloomError("No metric was given.", f"choose one or more of {', '.join(METRICS)}")
    for name in chosen:
        if name not in METRICS:
            raise unknown("metric", name, METRICS)
    return [METRICS[name]() for name in dict.fromkeys(chosen)]


def one_metric(metric: str | Metric) -> Metric:
    """Return the metric, looked up if it is given by name; raise if several are named."""
    if not isinstance(metric, str):
        return metric
    chosen = parse_metrics(metric)
    if len(chosen) > 1:
        raise SeqloomError(f"Expected one metric, got {metric!r}.", "call the function once per metric")
    return chosen[0]


def sentence_metric(metric: str | Metric) -> SentenceMetric:
    """Return the metric; raise if it has no statistics of single sentences."""
    chosen = one_metric(metric)
    if not isinstance(chosen, SentenceMetric):
        raise SeqloomError(
            f"{chosen.name} is defined for all outputs together and has no test of significance.",
            "choose another metric to compare or select systems, such as bleu",
        )
    return chosen


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: str | Sequence[Metric],
    *,
    bootstrap: int = BOOTSTRAP,
    seed: int = SEED,
) -> list[Score]:
    """Return the score of each metric; `references` has a string or a list of strings per hypothesis."""
    checked = checked_references(hypotheses, references)
    if bootstrap < 0:
        raise SeqloomError(
            f"The number of bootstrap samples must not be negative, got {bootstrap}.",
            "use 1000, or 0 for no interval",
        )
    chosen = parse_metrics(metrics) if isinstance(metrics, str) else metrics
    return [
        score(metric, metric.corpus_statistics(hypotheses, checked), checked, bootstrap, seed)
        for metric in chosen
    ]


def score(
    metric: Metric, statistics: Matrix, references: Sequence[Sequence[str]], bootstrap: int, seed: int
) -> Score:
    """Return the score and interval of sentences with these statistics, (N, K)."""
    low, high = None, None
    if bootstrap and isinstance(metric, SentenceMetric):
        totals = resampled_totals(statistics, bootstrap=bootstrap, seed=seed)
        low, high = interval(computed(metric, totals))
    counts = {len(alternatives) for alternatives in references}
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


def computed(metric: Metric, totals: Matrix) -> Matrix:
    """Return the score of each row of totals, (N,)."""
    return np.array([metric.compute(total) for total in totals])


def checked_references(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return one list of references per hypothesis; raise if they do not match the hypotheses."""
    if len(hypotheses) != len(references):
        raise SeqloomError(
            f"There are {len(hypotheses)} hypotheses but references for {len(references)} sentences.",
            "give one hypothesis and one list of references per sentence",
        )
    if not hypotheses:
        raise SeqloomError("Nothing to evaluate: there are no hypotheses.", "check that the file is not empty")
    # A string is a sequence of strings, too: each of its characters would become a reference.
    checked = [[given] if isinstance(given, str) else list(given) for given in references]
    for number, given in enumerate(checked, start=1):
        if not given:
            raise SeqloomError(
                f"Sentence {number} has no reference.", "add a reference or leave the sentence out"
            )
        for text in (hypotheses[number - 1], *given):
            check_unicode(text)
    return checked
