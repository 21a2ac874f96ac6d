"""Pairs whose sides are not translations of each other, found by a trained model.

The log-probability of a target is also low if the sentence is unusual. So it is compared to that of the same
target after another source x' of similar length: (log P(y | x) - log P(y | x')) per token is the information of
the source about the target. It is about 0 if they have nothing to do with each other.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from seqloom.cleaning.rule import Finding, Pair, Progress
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


class ModelScore:
    """Rule against pairs whose source makes the target little more probable than another source does."""

    passes = 2

    def __init__(self, sample: Sequence[Pair], least: float, scorer: PairScorer) -> None:
        self.least, self._scorer = least, scorer
        self._sources = sorted({source for source, _ in sample}, key=lambda source: (len(source), source))
        if len(self._sources) < 2:
            raise SeqloomError(
                "The rule model needs at least two different sources.", "leave it out: --without model"
            )

    @property
    def limit(self) -> str:
        return f"at least {self.least:g} nats per token"

    def judge(self, pairs: Sequence[Pair], on_progress: Progress) -> list[Finding | None]:
        findings: list[Finding | None] = []
        remaining = iter(pairs)
        while chunk := list(islice(remaining, _TOGETHER)):
            findings += map(self._finding, self._scores(chunk, on_progress))
        return findings

    def _finding(self, score: float) -> Finding | None:
        reason = f"the source adds {score:.2f} nats per token to the log-probability of the target"
        return Finding(reason, score) if score < self.least else None

    def _scores(self, pairs: Sequence[Pair], on_progress: Progress) -> Iterator[float]:
        own = self._scorer.score(pairs, on_progress=on_progress)
        others = [(self.other_source(source), target) for source, target in pairs]
        for one, other in zip(own, self._scorer.score(others, on_progress=on_progress), strict=True):
            yield _difference(one.log_prob, other.log_prob) / max(1, len(one.log_probs))

    def other_source(self, source: str) -> str:
        """Return a different source of the corpus of similar length."""
        place = bisect_left(self._sources, (len(source), source), key=lambda text: (len(text), text))
        return next(
            other
            for i in (place, place - 1, place + 1)
            if (other := self._sources[i % len(self._sources)]) != source
        )


def _difference(one: float, other: float) -> float:
    """Return one - other; NaN, which cannot be judged, if the model excludes the target after both sources."""
    return math.nan if math.isinf(one) and math.isinf(other) else one - other
