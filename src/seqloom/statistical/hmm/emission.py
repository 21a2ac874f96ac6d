"""Interface of the emission distributions of a hidden Markov model, and the categorical one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import torch
from torch import Tensor

from seqloom.errors import SeqloomError


class Emission(Protocol):
    """The densities b_i of K states, each a sum of M components."""

    @property
    def states(self) -> int: ...

    @property
    def width(self) -> int | None:
        """Number of features of a frame; None if a frame is a symbol."""
        ...

    def prepare(self, frames: Tensor) -> Tensor:
        """Convert frames to the input of `log_components` and `statistics` of all EM iterations."""
        ...

    def log_components(self, frames: Tensor) -> Tensor:
        """Return the logarithm of each component of each state's density, (N, K, M)."""
        ...

    def statistics(self, frames: Tensor, responsibilities: Tensor) -> tuple[Tensor, ...]:
        """Return the sufficient statistics for `m_step`, given (N, K, M); those of groups can be added."""
        ...

    def m_step(self, statistics: tuple[Tensor, ...]) -> Self:
        """Return the emissions that maximise the expected log-likelihood."""
        ...

    def log_prior(self) -> float:
        """Return the log prior, which EM adds to the log-likelihood."""
        ...

    def sample(self, states: Tensor, generator: torch.Generator) -> Tensor:
        """Draw one frame for each of the states (T,)."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return the parameters by name."""
        ...


@dataclass(frozen=True)
class Categorical:
    """Symbols: b_i(x) = B_ix. Probabilities of 0 stay 0; others are estimated with `smoothing` added counts.

    The added counts are a Dirichlet prior, so EM maximises log P(x) + smoothing · Σ log B.
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
        return self.probabilities.T.log().unsqueeze(2).contiguous()  # (V, K, 1): one contiguous row per symbol

    def prepare(self, frames: Tensor) -> Tensor:
        symbols = self.probabilities.shape[1]
        if len(frames) and not 0 <= int(frames.min()) <= int(frames.max()) < symbols:
            raise SeqloomError(
                f"Symbols range from {int(frames.min())} to {int(frames.max())}, but the model emits 0 to "
                f"{symbols - 1}.",
                "number the symbols as for the model's training data",
            )
        return frames

    def log_components(self, frames: Tensor) -> Tensor:
        return self._table[frames]

    def statistics(self, frames: Tensor, responsibilities: Tensor) -> tuple[Tensor, ...]:
        counts = torch.zeros_like(self.probabilities.T)
        return (counts.index_add_(0, frames, responsibilities[..., 0]).T,)

    def m_step(self, statistics: tuple[Tensor, ...]) -> Categorical:
        counts = torch.where(self.probabilities > 0, statistics[0] + self.smoothing, 0.0)
        return replace(self, probabilities=normalise(counts, self.probabilities))

    def log_prior(self) -> float:
        if not self.smoothing:
            return 0.0
        return self.smoothing * float(self.probabilities[self.probabilities > 0].log().sum())

    def sample(self, states: Tensor, generator: torch.Generator) -> Tensor:
        return self.probabilities[states].multinomial(1, generator=generator).squeeze(1)

    def state_dict(self) -> dict[str, Tensor]:
        return {"probabilities": self.probabilities}


def normalise(counts: Tensor, fallback: Tensor) -> Tensor:
    """Scale the rows to sum to 1; rows that sum to 0 are taken from `fallback`."""
    total = counts.sum(-1, keepdim=True)
    return torch.where(total > 0, counts / total, fallback)
