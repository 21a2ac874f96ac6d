"""Word translation probabilities, for example for the vocabulary shortlists of neural models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.statistical.alignment.bitext import Ids, Reals

_MINIMUM = 1e-5  # less probable translations are dropped


@dataclass(frozen=True, slots=True)
class Lexicon:
    """t(target | source) of the word pairs that occur together, sorted by source and decreasing probability."""

    source: Ids
    target: Ids
    probability: NDArray[np.float32]

    @classmethod
    def of(cls, source: Ids, target: Ids, weights: Reals) -> Lexicon:
        """Create a lexicon of these word pairs, with weights scaled to sum to 1 per source word."""
        totals = np.bincount(source, weights)
        probabilities = weights / totals[source]
        kept = np.flatnonzero(probabilities >= _MINIMUM)
        order = kept[np.lexsort((target[kept], -probabilities[kept], source[kept]))]
        return cls(source[order], target[order], probabilities[order].astype(np.float32))

    def best(self, count: int) -> Ids:
        """Return the most probable target ids of every source id, (V, count), padded with -1."""
        size = int(self.source.max(initial=-1)) + 1
        firsts = np.searchsorted(self.source, np.arange(size))
        ranks = np.arange(len(self.source)) - firsts[self.source]
        best = np.full((size, count), -1, dtype=np.int32)
        kept = ranks < count
        best[self.source[kept], ranks[kept]] = self.target[kept]
        return best

    def state_dict(self) -> dict[str, Tensor]:
        """Return the lexicon as tensors."""
        return {name: torch.from_numpy(getattr(self, name)) for name in ("source", "target", "probability")}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Lexicon:
        """Restore a lexicon from its state dict."""
        return cls(*(state[name].numpy() for name in ("source", "target", "probability")))
