"""Emission of feature frames: mixtures of Gaussians with diagonal or full covariance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.linalg import cholesky, cholesky_ex, eigh, solve_triangular

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.emission import normalised
from seqloom.statistical.state_reader import StateReader


@dataclass(frozen=True)
class Gaussians:
    """b_i(x) = Σ_m w_im N(x; μ_im, Σ_im), M components for each of K states.

    No variance is learned below `floor`: Σ − diag(floor) stays positive semidefinite. That still is the best
    covariance of those allowed, so that EM does not lose its promise: the likelihood rises.
    """

    weights: Tensor  # (K, M)
    means: Tensor  # (K, M, F)
    covariances: Tensor  # (K, M, F) diagonals, or (K, M, F, F)
    floor: Tensor  # (F,)
    centre: Tensor  # (F,) what is taken off all frames, because squares of large numbers cancel badly

    @classmethod
    def of(cls, weights: Tensor, means: Tensor, covariances: Tensor, floor: Tensor) -> Gaussians:
        """Emissions around the middle of their means."""
        return cls(weights, means, covariances, floor, means.mean((0, 1)))

    @classmethod
    def given(cls, given: StateReader, dtype: torch.dtype) -> Gaussians:
        """The emissions that `state` came from; covariances that are none are a ValueError."""
        full = given.state["covariances"].dim() == 4
        covariances = given.numbers("covariances", *"KMFF" if full else "KMF", dtype=dtype)
        if bool(cholesky_ex(covariances).info.any() if full else (covariances <= 0).any()):
            raise ValueError("covariances are not all positive")
        return cls.of(
            given.probabilities("weights", "K", "M", dtype=dtype),
            given.numbers("means", "K", "M", "F", dtype=dtype),
            covariances,
            given.numbers("floor", "F", dtype=dtype, least=0),
        )

    @property
    def states(self) -> int:
        return len(self.means)

    @property
    def width(self) -> int:
        return self.means.shape[-1]

    @property
    def full(self) -> bool:
        return self.covariances.dim() == 4

    def prepared(self, frames: Tensor) -> Tensor:
        """x from the centre; with diagonal covariance [x, x²], the sufficient statistics (N, 2F)."""
        if self.full:
            return frames - self.centre
        both = frames.new_empty(len(frames), 2 * self.width)
        x, squares = both.chunk(2, dim=1)
        torch.sub(frames, self.centre, out=x)
        torch.square(x, out=squares)
        return both

    @cached_property
    def _flat_means(self) -> Tensor:
        return self.means.flatten(0, 1) - self.centre  # (KM, F)

    def parts(self, frames: Tensor) -> Tensor:
        log_densities = self._full(frames) if self.full else self._diagonal(frames)
        log_densities += self.weights.flatten().log() - 0.5 * self.width * math.log(2 * math.pi)
        return log_densities.view(-1, *self.weights.shape)

    def _diagonal(self, both: Tensor) -> Tensor:
        """(N, KM): −½ Σ (log σ² + (x − μ)²/σ²), the square written out: one product of [x, x²] and a matrix."""
        means, precision = self._flat_means, self.covariances.flatten(0, 1).reciprocal()
        constant = 0.5 * (precision.log() - means.square() * precision).sum(1)
        return torch.addmm(constant, both, torch.cat((means * precision, -0.5 * precision), dim=1).T)

    def _full(self, x: Tensor) -> Tensor:
        """(N, KM): −½ (log |Σ| + |L⁻¹(x − μ)|²) where Σ = L Lᵀ."""
        lower, singular = cholesky_ex(self.covariances.flatten(0, 1))
        if bool(singular.any()):
            raise SeqloomError(
                "The frames of a state vary in too few directions for a full covariance.",
                "set model.floor above 0, or model.covariance=diagonal",
            )
        identity = torch.eye(self.width, dtype=x.dtype, device=x.device).expand_as(lower)
        inverse = solve_triangular(lower, identity, upper=False)
        found = x.new_empty(len(x), len(lower))
        for column, (one, mean) in enumerate(zip(inverse, self._flat_means, strict=True)):
            white = torch.addmm(-(one @ mean), x, one.T)
            found[:, column] = white.square_().sum(1)
        return found.mul_(-0.5).sub_(lower.diagonal(dim1=1, dim2=2).log().sum(1))

    def statistics(self, frames: Tensor, shares: Tensor) -> tuple[Tensor, ...]:
        """Σ r, Σ r x and Σ r x² (or Σ r x xᵀ) of every component, x measured from the centre."""
        r = shares.flatten(1)
        if self.full:
            second = torch.stack([(frames * column.unsqueeze(1)).T @ frames for column in r.unbind(1)])
            return r.sum(0), r.T @ frames, second
        return r.sum(0), *(r.T @ frames).chunk(2, dim=1)

    def maximised(self, statistics: tuple[Tensor, ...]) -> Gaussians:
        occupancy, first, second = statistics
        used = occupancy > torch.finfo(first.dtype).eps  # a component without frames stays what it was
        count = occupancy.clamp_min(torch.finfo(first.dtype).eps).unsqueeze(1)
        mean = first / count
        if self.full:
            spread = second / count.unsqueeze(2) - mean.unsqueeze(2) * mean.unsqueeze(1)
            floored = self._floored(spread)
        else:
            floored = (second / count - mean.square()).maximum(self.floor)
        means = torch.where(used.unsqueeze(1), mean + self.centre, self.means.flatten(0, 1))
        keep = used.reshape(-1, *[1] * (floored.dim() - 1))
        return replace(
            self,
            weights=normalised(occupancy.view_as(self.weights), self.weights),
            means=means.view_as(self.means),
            covariances=torch.where(keep, floored, self.covariances.flatten(0, 1)).view_as(self.covariances),
        )

    def _floored(self, spread: Tensor) -> Tensor:
        """The spreads (KM, F, F) with no eigenvalue below 1 when measured in units of the floor."""
        if not bool((self.floor > 0).all()):
            return spread
        unit = self.floor.sqrt().unsqueeze(1) * self.floor.sqrt()
        values, vectors = eigh(spread / unit)
        floored: Tensor = (vectors * values.clamp_min(1.0).unsqueeze(1)) @ vectors.mT * unit
        return floored

    def log_prior(self) -> float:
        return 0.0

    def sample(self, states: Tensor, generator: torch.Generator) -> Tensor:
        component = self.weights[states].multinomial(1, generator=generator).squeeze(1)
        mean, covariance = self.means[states, component], self.covariances[states, component]
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        if self.full:
            return torch.baddbmm(mean.unsqueeze(2), cholesky(covariance), noise.unsqueeze(2)).squeeze(2)
        return mean + covariance.sqrt() * noise

    def state_dict(self) -> dict[str, Tensor]:
        return {
            "weights": self.weights,
            "means": self.means,
            "covariances": self.covariances,
            "floor": self.floor,
        }
