"""Word translation probabilities, e.g. to shorten a neural model's vocabulary to what a sentence may need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.statistical.alignment.bitext import Ids, Reals

_LEAST = 1e-5  # a less probable translation is not kept


@dataclass(frozen=True, slots=True)
class Lexicon:
    """t(target | source) of the word pairs that occur together, by source and then from the most probable."""

    source: Ids
    target: Ids
    probability: NDArray[np.float32]

    @classmethod
    def of(cls, source: Ids, target: Ids, weights: Reals) -> Lexicon:
        """The lexicon of these word pairs, with weights that sum to 1 per source word."""
        totals = np.bincount(source, weights)
        shares = weights / totals[source]
        kept = np.flatnonzero(shares >= _LEAST)
        order = kept[np.lexsort((target[kept], -shares[kept], source[kept]))]
        return cls(source[order], target[order], shares[order].astype(np.float32))

    def best(self, count: int) -> Ids:
        """The most probable target ids of every source id, (V, count); -1 where there are no more."""
        size = int(self.source.max(initial=-1)) + 1
        firsts = np.searchsorted(self.source, np.arange(size))
        ranks = np.arange(len(self.source)) - firsts[self.source]
        found = np.full((size, count), -1, dtype=np.int32)
        kept = ranks < count
        found[self.source[kept], ranks[kept]] = self.target[kept]
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """The lexicon as tensors."""
        return {name: torch.from_numpy(getattr(self, name)) for name in ("source", "target", "probability")}

    @classmethod
    def restored(cls, state: Mapping[str, Tensor]) -> Lexicon:
        """The lexicon that `state` gave."""
        return cls(*(state[name].numpy() for name in ("source", "target", "probability")))
