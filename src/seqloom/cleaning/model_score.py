"""Pairs whose sides are not translations of each other, found by a trained model.

log P(y | x) is also low if the target y is an unusual sentence. So it is compared to the mean probability of
the same target after K other sources of the corpus, an estimate of P(y):

    score = (log P(y | x) - log (1/K) Σ_k P(y | x_k)) / tokens of y

This is the information of the source about the target, in nats per token. It is about 0 if they have nothing to
do with each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol
from zlib import crc32

from seqloom.cleaning.information import InformationRule
from seqloom.cleaning.rule import Pair, Progress
from seqloom.errors import SeqloomError

OTHERS = 4  # K
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
    """Rule against pairs whose source makes the target little more probable than other sources do."""

    unit = "token"
    passes = 1 + OTHERS

    def __init__(self, sample: Sequence[Pair], least: float, scorer: PairScorer) -> None:
        super().__init__(least)
        self._scorer = scorer
        self._sources = list(dict.fromkeys(source for source, _ in sample))
        if len(self._sources) <= OTHERS:
            raise SeqloomError(
                f"The rule model needs more than {OTHERS} different sources.", "leave it out: --without model"
            )

    def scores(self, pairs: Sequence[Pair], on_progress: Progress) -> list[float]:
        scores: list[float] = []
        remaining = iter(pairs)
        while chunk := list(islice(remaining, _TOGETHER)):
            own = self._scorer.score(chunk, on_progress=on_progress)
            others = [(other, target) for source, target in chunk for other in self.other_sources(source)]
            found = [score.log_prob for score in self._scorer.score(others, on_progress=on_progress)]
            for place, score in enumerate(own):
                scores.append(_information(score, found[place * OTHERS : (place + 1) * OTHERS]))
        return scores

    def other_sources(self, source: str) -> list[str]:
        """Return sources of the corpus that are not this one; the same in every call."""
        return list(islice(self._from(crc32(source.encode()), source), OTHERS))

    def _from(self, start: int, source: str) -> Iterator[str]:
        for place in range(start, start + len(self._sources)):
            if (other := self._sources[place % len(self._sources)]) != source:
                yield other


def _information(own: PairScore, others: Sequence[float]) -> float:
    """Return the score; NaN if the model excludes the target after every source."""
    largest = max(others)
    if math.isinf(largest):
        return math.nan if math.isinf(own.log_prob) else math.inf
    mean = largest + math.log(math.fsum(math.exp(other - largest) for other in others) / len(others))
    return (own.log_prob - mean) / max(1, len(own.log_probs))
