"""Choice between search settings: the best one, or a cheaper one that is not clearly worse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from seqloom.evaluate.metrics import BOOTSTRAP, SEED, Score, checked_references, computed, score
from seqloom.evaluate.resample import Matrix, resampled_totals
from seqloom.evaluate.sentence_metric import SentenceMetric
from seqloom.tune.search import Decoded, Setting

RULE = (
    "the cheapest setting whose score is at most one standard error below the best one (paired bootstrap); "
    "cheaper is a smaller beam, then the norm length, which CTranslate2 supports; ties go to the better score"
)


@dataclass(frozen=True)
class Measured:
    """Score and speed of a setting, and its distance from the best score."""

    setting: Setting
    score: Score
    sentences_per_second: float
    below_best: float  # difference from the best score, 0 or more
    standard_error: float  # of that difference

    @property
    def is_within_noise(self) -> bool:
        """Whether the score is at most one standard error below the best one."""
        return self.below_best <= self.standard_error

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.setting.options(),
            "score": asdict(self.score),
            "sentences_per_second": self.sentences_per_second,
            "below_best": self.below_best,
            "standard_error": self.standard_error,
            "within_noise": self.is_within_noise,
        }


def measure(
    decoded: Iterable[Decoded], references: Sequence[Sequence[str]], metric: SentenceMetric
) -> list[Measured]:
    """Return the score of every setting, with its distance from the best one on the same resampled lines."""
    systems = list(decoded)
    statistics = _Statistics(metric, checked_references(systems[0].texts, references))
    matrices = {texts: statistics.of(texts) for texts in {system.texts for system in systems}}
    draws = {
        texts: computed(metric, resampled_totals(matrix, bootstrap=BOOTSTRAP, seed=SEED))
        for texts, matrix in matrices.items()
    }
    scores = {
        texts: score(metric, matrix, statistics.references, BOOTSTRAP, SEED)
        for texts, matrix in matrices.items()
    }
    sign = 1.0 if metric.higher_is_better else -1.0
    best = max(scores, key=lambda texts: sign * scores[texts].value)
    return [
        Measured(
            setting=system.setting,
            score=scores[system.texts],
            sentences_per_second=system.sentences_per_second,
            below_best=sign * (scores[best].value - scores[system.texts].value),
            standard_error=float(np.std(draws[best] - draws[system.texts])),
        )
        for system in systems
    ]


class _Statistics:
    """Statistics of outputs, computed once per line and output: most settings share most outputs."""

    def __init__(self, metric: SentenceMetric, references: list[list[str]]) -> None:
        self.metric, self.references = metric, references
        self._known: dict[tuple[int, str], Sequence[float]] = {}

    def of(self, texts: Sequence[str]) -> Matrix:
        """Return the statistics of each line, (N, K)."""
        return np.array([self._line(number, text) for number, text in enumerate(texts)], dtype=np.float64)

    def _line(self, number: int, text: str) -> Sequence[float]:
        if (number, text) not in self._known:
            self._known[number, text] = self.metric.statistics(text, self.references[number])
        return self._known[number, text]


def best_of(measured: Sequence[Measured]) -> Measured:
    """Return the setting with the best score."""
    return min(measured, key=lambda one: one.below_best)


def choose(measured: Sequence[Measured]) -> Measured:
    """Return the setting that `RULE` describes."""
    return min((one for one in measured if one.is_within_noise), key=_cost)


def _cost(one: Measured) -> tuple[int, bool, float]:
    return one.setting.beam, one.setting.length_norm != "length", one.below_best
