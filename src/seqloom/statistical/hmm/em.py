"""Baum-Welch: the parameters of a hidden Markov model from sequences whose states nobody knows.

Baum et al. 1970; Dempster, Laird and Rubin 1977: no iteration makes the likelihood smaller. If one does, some
computation is wrong, and the fit says so and stops.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.emission import normalised
from seqloom.statistical.hmm.packed import Packed
from seqloom.statistical.hmm.recursions import Chain, backward, forward, posteriors, transition_counts

if TYPE_CHECKING:
    from seqloom.statistical.hmm.model import Hmm

logger = logging.getLogger(__name__)

_ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-5}  # a fall that is smaller, relative to all, is none


@dataclass(frozen=True)
class ExpectedCounts:
    """What one pass over the data expects the hidden states to have done, and log P of all sequences."""

    log_likelihood: float
    start: Tensor  # (K,)
    transition: Tensor  # (K, K)
    emission: tuple[Tensor, ...]

    def __add__(self, other: ExpectedCounts) -> ExpectedCounts:
        return ExpectedCounts(
            self.log_likelihood + other.log_likelihood,
            self.start + other.start,
            self.transition + other.transition,
            tuple(one + two for one, two in zip(self.emission, other.emission, strict=True)),
        )


@dataclass(frozen=True)
class Fit:
    """A fitted model and the objective before each iteration: log P of the data, plus that of a prior."""

    model: Hmm
    history: tuple[float, ...]
    converged: bool = False
    fell: bool = False  # the objective fell, so the fit was stopped at the parameters before


def expected(model: Hmm, packed: Packed) -> ExpectedCounts:
    """The E step for one group of sequences."""
    chain = Chain.of(model.start, model.transition)
    parts = model.emission.parts(packed.frames)
    density = log_density(parts)
    filtered = forward(chain, density, packed)
    refuse_impossible(filtered.log_likelihood, packed)
    gamma = posteriors(filtered, backward(chain, density, packed))
    return ExpectedCounts(
        float(filtered.log_likelihood.sum()),
        gamma[: packed.sizes[0]].sum(0),
        transition_counts(chain, filtered, gamma, packed),
        model.emission.statistics(packed.frames, shares(parts, density, gamma)),
    )


def shares(parts: Tensor, density: Tensor, gamma: Tensor) -> Tensor:
    """(N, K, M): P(state | x) P(part | state, x_t), what each part of each state has of a frame."""
    if parts.shape[2] == 1:
        return gamma.unsqueeze(2)
    return (parts - density.unsqueeze(2)).exp_().mul_(gamma.unsqueeze(2))


def log_density(parts: Tensor) -> Tensor:
    """(N, K): the log-densities of the states whose parts are given."""
    return parts.squeeze(2) if parts.shape[2] == 1 else parts.logsumexp(2)


def refuse_impossible(log_likelihood: Tensor, packed: Packed) -> None:
    """Raises if a sequence has probability 0."""
    if not bool(torch.isfinite(log_likelihood).all()):
        row = int((~torch.isfinite(log_likelihood)).nonzero()[0])
        raise SeqloomError(
            f"Sequence {int(packed.order[row]) + 1} is impossible under the model: no path of states emits it.",
            "smooth the emissions, or allow more transitions",
        )


def maximised(model: Hmm, sums: ExpectedCounts) -> Hmm:
    """The M step: the model that such counts make most likely. Transitions of probability 0 stay so."""
    return replace(
        model,
        start=normalised(sums.start, model.start),
        transition=normalised(sums.transition, model.transition),
        emission=model.emission.maximised(sums.emission),
    )


def baum_welch(model: Hmm, groups: Sequence[Packed], *, iterations: int, tolerance: float) -> Fit:
    """The fit from this start. It has converged when an iteration gains less than `tolerance` per frame."""
    frames = sum(len(group.frames) for group in groups)
    history: list[float] = []
    before = model
    for _ in range(iterations):
        sums = total(expected(model, group) for group in groups)
        objective = sums.log_likelihood + model.emission.log_prior()
        if history and objective < history[-1] - _ROUNDING[model.start.dtype] * abs(history[-1]):
            logger.warning(
                f"Iteration {len(history)} made the log-likelihood fall from {history[-1]:.6f} to "
                f"{objective:.6f}: the fit was stopped at the parameters before it."
            )
            return Fit(before, tuple(history), fell=True)
        history.append(objective)
        if len(history) > 1 and objective - history[-2] < tolerance * frames:
            return Fit(model, tuple(history), converged=True)
        before, model = model, maximised(model, sums)
    return Fit(model, tuple(history))


def total(parts: Iterable[ExpectedCounts]) -> ExpectedCounts:
    """The sum of what is expected of all groups."""
    first, *rest = parts
    for one in rest:
        first = first + one
    return first
