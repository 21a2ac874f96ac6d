"""distinct-n, the diversity of all outputs of a model (Li et al., 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqloom.evaluate.resample import Matrix
from seqloom.evaluate.rouge import ngrams
from seqloom.evaluate.sentence_metric import own_signature


@dataclass(frozen=True)
class DistinctNgrams:
    """Distinct n-grams per n-gram of all outputs in percent; words are separated by white space.

    An n-gram counts once in the entire corpus, so the value depends on the number of outputs, and a sample with
    repeated outputs has a lower one: there is no bootstrap interval.
    """

    name: str
    label: str
    size: int
    higher_is_better: bool = True

    def corpus_statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Matrix:
        """Return the n-grams that occur first in each output, and all of its n-grams, (N, 2)."""
        seen: set[tuple[str, ...]] = set()
        rows = []
        for hypothesis in hypotheses:
            counts = ngrams(hypothesis.split(), self.size)
            rows.append((len(counts.keys() - seen), counts.total()))
            seen |= counts.keys()
        return np.array(rows, dtype=np.float64)

    def compute(self, total: Matrix) -> float:
        distinct, count = map(float, total)
        return 100 * distinct / count if count else 0.0

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        return own_signature(self.name, {"tok": "space"}, nrefs=nrefs, bootstrap=0, seed=seed)
