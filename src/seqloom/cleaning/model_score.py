"""Pairs whose sides are not translations of each other, found by a trained model.

The log-probability of a target is also low if the sentence is unusual. So it is compared to that of the same
target after another source x' of similar length: (log P(y | x) - log P(y | x')) per token is the information of
the source about the target. It is about 0 if they have nothing to do with each other.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from seqloom.cleaning.information import InformationRule
from seqloom.cleaning.rule import Pair, Progress
from seqloom.errors import SeqloomError

_TOGETHER = 5000  # pairs that are scored in batches of similar length


class PairScore(Protocol):
    """The part of a score that is used."""

    @property
    def log_prob(self) -> float: ...

    @property
    def log_probs(self) -> Sequence[float]: ...


class PairScorer(Protocol):
    """The part of `seqloom.decode.scoring.ForcedScorer` that is used."""

    def score(self, pairs: Sequence[Pair], *, on_progress: Progress | None = None) -> Sequence[PairScore]: ...


class ModelScore(InformationRule):
    """Rule against pairs whose source makes the target little more probable than another source does."""

    unit = "token"
    passes = 2

    def __init__(self, sample: Sequence[Pair], least: float, scorer: PairScorer) -> None:
        super().__init__(least)
        self._scorer = scorer
        self._sources = sorted({source for source, _ in sample}, key=_by_length)
        if len(self._sources) < 2:
            raise SeqloomError(
                "The rule model needs at least two different sources.", "leave it out: --without model"
            )

    def scores(self, pairs: Sequence[Pair], on_progress: Progress) -> list[float]:
        scores: list[float] = []
        remaining = iter(pairs)
        while chunk := list(islice(remaining, _TOGETHER)):
            own = self._scorer.score(chunk, on_progress=on_progress)
            others = [(self.other_source(source), target) for source, target in chunk]
            after_others = self._scorer.score(others, on_progress=on_progress)
            scores += map(_gain, own, after_others)
        return scores

    def other_source(self, source: str) -> str:
        """Return a different source of the corpus of similar length."""
        place = bisect_left(self._sources, _by_length(source), key=_by_length)
        near = [other for other in self._sources[max(0, place - 1) : place + 2] if other != source]
        return min(near, key=lambda other: abs(len(other) - len(source)))


def _by_length(text: str) -> tuple[int, str]:
    return len(text), text


def _gain(own: PairScore, other: PairScore) -> float:
    """Return the difference per token; NaN if the model excludes the target after both sources."""
    if math.isinf(own.log_prob) and math.isinf(other.log_prob):
        return math.nan
    return (own.log_prob - other.log_prob) / max(1, len(own.log_probs))
