"""Base class of metrics whose statistics of a sentence do not depend on the other sentences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqloom import __version__
from seqloom.evaluate.resample import Matrix


@dataclass(frozen=True)
class SentenceMetric(ABC):
    """Function of a sum over sentences, so that resampled sentences give an interval."""

    name: str
    label: str
    higher_is_better: bool

    @abstractmethod
    def statistics(self, hypothesis: str, references: Sequence[str]) -> Sequence[float]:
        """Return the statistics that one sentence adds to the sum."""

    @abstractmethod
    def compute(self, total: Matrix) -> float:
        """Return the score of a sum of statistics, (K,)."""

    @abstractmethod
    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        """Return all settings needed to reproduce the score; nrefs is None if it varies."""

    def corpus_statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Matrix:
        """Return the statistics of each sentence, (N, K)."""
        pairs = zip(hypotheses, references, strict=True)
        return np.array([self.statistics(*pair) for pair in pairs], dtype=np.float64)


def own_signature(name: str, facts: dict[str, str], *, nrefs: int | None, bootstrap: int, seed: int) -> str:
    """Return a signature in the style of sacreBLEU, name|key:value|..., for metrics that are not part of it."""
    sampled = {"bs": str(bootstrap), "seed": str(seed)} if bootstrap else {}
    pairs = {"nrefs": "var" if nrefs is None else str(nrefs), **sampled, **facts}
    return "|".join(
        [name, *(f"{key}:{value}" for key, value in pairs.items()), f"version:seqloom-{__version__}"]
    )
