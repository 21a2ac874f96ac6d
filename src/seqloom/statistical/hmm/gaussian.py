"""Emission of feature frames: Gaussian mixtures with diagonal or full covariance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.linalg import cholesky, cholesky_ex, eigh, solve_triangular

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.emission import normalise
from seqloom.statistical.state_reader import StateReader


@dataclass(frozen=True)
class Gaussians:
    """b_i(x) = Σ_m w_im N(x; μ_im, Σ_im), M components for each of K states.

    `floor` bounds the variances from below: Σ − diag(floor) stays positive semidefinite. The M step finds the
    best covariance under this constraint, so that EM never decreases the likelihood.
    """

    weights: Tensor  # (K, M)
    means: Tensor  # (K, M, F)
    covariances: Tensor  # (K, M, F) diagonals, or (K, M, F, F)
    floor: Tensor  # (F,)
    centre: Tensor  # (F,) subtracted from all frames to avoid cancellation in sums of squares

    @classmethod
    def of(cls, weights: Tensor, means: Tensor, covariances: Tensor, floor: Tensor) -> Gaussians:
        """Create emissions that are centred at the mean of all component means."""
        return cls(weights, means, covariances, floor, means.mean((0, 1)))

    @classmethod
    def from_state(cls, reader: StateReader, dtype: torch.dtype) -> Gaussians:
        """Restore the emissions; raise ValueError unless all covariances are positive definite."""
        full = reader.state["covariances"].dim() == 4
        covariances = reader.numbers("covariances", *"KMFF" if full else "KMF", dtype=dtype)
        if bool(cholesky_ex(covariances).info.any() if full else (covariances <= 0).any()):
            raise ValueError("covariances are not positive definite")
        return cls.of(
            reader.probabilities("weights", "K", "M", dtype=dtype),
            reader.numbers("means", "K", "M", "F", dtype=dtype),
            covariances,
            reader.numbers("floor", "F", dtype=dtype, minimum=0),
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

    def prepare(self, frames: Tensor) -> Tensor:
        """Return x relative to the centre; with diagonal covariance [x, x²], of shape (N, 2F)."""
        if self.full:
            return frames - self.centre
        features = frames.new_empty(len(frames), 2 * self.width)
        x, squares = features.chunk(2, dim=1)
        torch.sub(frames, self.centre, out=x)
        torch.square(x, out=squares)
        return features

    @cached_property
    def _flat_means(self) -> Tensor:
        return self.means.flatten(0, 1) - self.centre  # (KM, F)

    def log_components(self, frames: Tensor) -> Tensor:
        log_densities = self._full(frames) if self.full else self._diagonal(frames)
        log_densities += self.weights.flatten().log() - 0.5 * self.width * math.log(2 * math.pi)
        return log_densities.view(-1, *self.weights.shape)

    def _diagonal(self, features: Tensor) -> Tensor:
        """Return −½ Σ (log σ² + (x − μ)²/σ²), (N, KM), with the square expanded to one product with [x, x²]."""
        means, precision = self._flat_means, self.covariances.flatten(0, 1).reciprocal()
        constant = 0.5 * (precision.log() - means.square() * precision).sum(1)
        return torch.addmm(constant, features, torch.cat((means * precision, -0.5 * precision), dim=1).T)

    def _full(self, x: Tensor) -> Tensor:
        """Return −½ (log |Σ| + |L⁻¹(x − μ)|²), (N, KM), where Σ = L Lᵀ."""
        lower, singular = cholesky_ex(self.covariances.flatten(0, 1))
        if bool(singular.any()):
            raise SeqloomError(
                "The frames of a state have a singular covariance: they vary in too few directions.",
                "set model.floor above 0, or model.covariance=diagonal",
            )
        identity = torch.eye(self.width, dtype=x.dtype, device=x.device).expand_as(lower)
        inverse = solve_triangular(lower, identity, upper=False)
        distances = x.new_empty(len(x), len(lower))
        for column, (whitening, mean) in enumerate(zip(inverse, self._flat_means, strict=True)):
            white = torch.addmm(-(whitening @ mean), x, whitening.T)
            distances[:, column] = white.square_().sum(1)
        return distances.mul_(-0.5).sub_(lower.diagonal(dim1=1, dim2=2).log().sum(1))

    def statistics(self, frames: Tensor, responsibilities: Tensor) -> tuple[Tensor, ...]:
        """Return Σ r, Σ r x and Σ r x² (or Σ r x xᵀ) of every component, with x relative to the centre."""
        r = responsibilities.flatten(1)
        if self.full:
            second = torch.stack([(frames * column.unsqueeze(1)).T @ frames for column in r.unbind(1)])
            return r.sum(0), r.T @ frames, second
        return r.sum(0), *(r.T @ frames).chunk(2, dim=1)

    def m_step(self, statistics: tuple[Tensor, ...]) -> Gaussians:
        occupancy, first, second = statistics
        used = occupancy > torch.finfo(first.dtype).eps  # a component without frames keeps its parameters
        count = occupancy.clamp_min(torch.finfo(first.dtype).eps).unsqueeze(1)
        mean = first / count
        if self.full:
            covariances = second / count.unsqueeze(2) - mean.unsqueeze(2) * mean.unsqueeze(1)
            floored = self._floored(covariances)
        else:
            floored = (second / count - mean.square()).maximum(self.floor)
        means = torch.where(used.unsqueeze(1), mean + self.centre, self.means.flatten(0, 1))
        keep = used.reshape(-1, *[1] * (floored.dim() - 1))
        return replace(
            self,
            weights=normalise(occupancy.view_as(self.weights), self.weights),
            means=means.view_as(self.means),
            covariances=torch.where(keep, floored, self.covariances.flatten(0, 1)).view_as(self.covariances),
        )

    def _floored(self, covariances: Tensor) -> Tensor:
        """Clamp the eigenvalues of the covariances (KM, F, F), in units of the floor, to at least 1."""
        if not bool((self.floor > 0).all()):
            return covariances
        unit = self.floor.sqrt().unsqueeze(1) * self.floor.sqrt()
        values, vectors = eigh(covariances / unit)
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
