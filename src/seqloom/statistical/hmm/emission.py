"""What the states of a hidden Markov model emit, as the recursions and EM see it; and symbols."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import torch
from torch import Tensor

from seqloom.errors import SeqloomError


class Emission(Protocol):
    """The densities b_i of K states. `parts` are what a state's density is the sum of."""

    @property
    def states(self) -> int: ...

    @property
    def width(self) -> int | None:
        """The features of a frame; None if a frame is a symbol."""
        ...

    def prepared(self, frames: Tensor) -> Tensor:
        """The frames as `parts` and `statistics` take them, of this and of every `maximised` model."""
        ...

    def parts(self, frames: Tensor) -> Tensor:
        """(N, K, M): the logarithm of each part of the density of each state."""
        ...

    def statistics(self, frames: Tensor, shares: Tensor) -> tuple[Tensor, ...]:
        """All that `maximised` needs of frames whose parts have these shares (N, K, M); it can be added up."""
        ...

    def maximised(self, statistics: tuple[Tensor, ...]) -> Self:
        """The emissions that make the expected log-likelihood largest."""
        ...

    def log_prior(self) -> float:
        """What EM adds to the log-likelihood."""
        ...

    def sample(self, states: Tensor, generator: torch.Generator) -> Tensor:
        """A frame for each of the states (T,)."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters by name."""
        ...


@dataclass(frozen=True)
class Categorical:
    """Symbols: b_i(x) = B_ix. A probability of 0 stays 0; every other is learned with `smoothing` more counts.

    The added counts are a Dirichlet prior, so EM climbs log P(x) + smoothing · Σ log B.
    """

    probabilities: Tensor  # (K, V)
    smoothing: float = 0.0

    @property
    def states(self) -> int:
        return len(self.probabilities)

    @property
    def width(self) -> None:
        return None

    @cached_property
    def _table(self) -> Tensor:
        return self.probabilities.T.log().unsqueeze(2).contiguous()  # (V, K, 1): a symbol's row lies together

    def prepared(self, frames: Tensor) -> Tensor:
        symbols = self.probabilities.shape[1]
        if len(frames) and not 0 <= int(frames.min()) <= int(frames.max()) < symbols:
            raise SeqloomError(
                f"There are symbols from {int(frames.min())} to {int(frames.max())}, but the model emits those "
                f"from 0 to {symbols - 1}.",
                "number the symbols as they were when the model was made",
            )
        return frames

    def parts(self, frames: Tensor) -> Tensor:
        return self._table[frames]

    def statistics(self, frames: Tensor, shares: Tensor) -> tuple[Tensor, ...]:
        counts = torch.zeros_like(self.probabilities.T)
        return (counts.index_add_(0, frames, shares[..., 0]).T,)

    def maximised(self, statistics: tuple[Tensor, ...]) -> Categorical:
        counts = torch.where(self.probabilities > 0, statistics[0] + self.smoothing, 0.0)
        return replace(self, probabilities=normalised(counts, self.probabilities))

    def log_prior(self) -> float:
        if not self.smoothing:
            return 0.0
        return self.smoothing * float(self.probabilities[self.probabilities > 0].log().sum())

    def sample(self, states: Tensor, generator: torch.Generator) -> Tensor:
        return self.probabilities[states].multinomial(1, generator=generator).squeeze(1)

    def state_dict(self) -> dict[str, Tensor]:
        return {"probabilities": self.probabilities}


def normalised(counts: Tensor, otherwise: Tensor) -> Tensor:
    """The counts with rows that sum to 1; a row without any is taken from the other tensor."""
    total = counts.sum(-1, keepdim=True)
    return torch.where(total > 0, counts / total, otherwise)
