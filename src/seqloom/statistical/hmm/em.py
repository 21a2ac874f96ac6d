"""Baum-Welch: EM estimation of a hidden Markov model from sequences with unknown states.

Baum et al. 1970; Dempster, Laird and Rubin 1977: no iteration decreases the likelihood. A decrease therefore
means a numerical or programming error: the fit reports it and stops.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.emission import normalise
from seqloom.statistical.hmm.packed import Packed
from seqloom.statistical.hmm.recursions import Chain, backward, forward, posteriors, transition_counts

if TYPE_CHECKING:
    from seqloom.statistical.hmm.model import Hmm

logger = logging.getLogger(__name__)

_ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-5}  # relative decrease attributed to rounding


@dataclass(frozen=True)
class ExpectedCounts:
    """Expected counts of one pass over the data (the E step), and log P of all sequences."""

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
    """A fitted model and the objective before each iteration: log P of the data plus the log prior."""

    model: Hmm
    history: tuple[float, ...]
    converged: bool = False
    decreased: bool = False  # the objective decreased, so the fit stopped at the previous parameters


def e_step(model: Hmm, packed: Packed) -> ExpectedCounts:
    """Return the expected counts of one group of sequences."""
    chain = Chain.of(model.start, model.transition)
    components = model.emission.log_components(packed.frames)
    density = log_density(components)
    filtered = forward(chain, density, packed)
    check_possible(filtered.log_likelihood, packed)
    gamma = posteriors(filtered, backward(chain, density, packed))
    return ExpectedCounts(
        float(filtered.log_likelihood.sum()),
        gamma[: packed.sizes[0]].sum(0),
        transition_counts(chain, filtered, gamma, packed),
        model.emission.statistics(packed.frames, responsibilities(components, density, gamma)),
    )


def responsibilities(components: Tensor, density: Tensor, gamma: Tensor) -> Tensor:
    """Return P(state | x) P(component | state, x_t) for every frame, (N, K, M)."""
    if components.shape[2] == 1:
        return gamma.unsqueeze(2)
    return (components - density.unsqueeze(2)).exp_().mul_(gamma.unsqueeze(2))


def log_density(components: Tensor) -> Tensor:
    """Return the log-densities of the states, (N, K), given those of their components, (N, K, M)."""
    return components.squeeze(2) if components.shape[2] == 1 else components.logsumexp(2)


def check_possible(log_likelihood: Tensor, packed: Packed) -> None:
    """Raise if a sequence has probability 0."""
    if not bool(torch.isfinite(log_likelihood).all()):
        row = int((~torch.isfinite(log_likelihood)).nonzero()[0])
        raise SeqloomError(
            f"Sequence {int(packed.order[row]) + 1} has probability 0 under the model: no state path emits it.",
            "smooth the emissions, or allow more transitions",
        )


def m_step(model: Hmm, counts: ExpectedCounts) -> Hmm:
    """Return the model that maximises the likelihood of the counts. Transitions of probability 0 stay 0."""
    return replace(
        model,
        start=normalise(counts.start, model.start),
        transition=normalise(counts.transition, model.transition),
        emission=model.emission.m_step(counts.emission),
    )


def baum_welch(model: Hmm, groups: Sequence[Packed], *, iterations: int, tolerance: float) -> Fit:
    """Fit by EM, starting at `model`; converged when an iteration gains less than `tolerance` per frame."""
    frames = sum(len(group.frames) for group in groups)
    history: list[float] = []
    previous = model
    for _ in range(iterations):
        counts = sum_counts(e_step(model, group) for group in groups)
        objective = counts.log_likelihood + model.emission.log_prior()
        if history and objective < history[-1] - _ROUNDING[model.start.dtype] * abs(history[-1]):
            logger.warning(
                f"EM iteration {len(history)} decreased the log-likelihood from {history[-1]:.6f} to "
                f"{objective:.6f}; stopped at the parameters before it."
            )
            return Fit(previous, tuple(history), decreased=True)
        history.append(objective)
        if len(history) > 1 and objective - history[-2] < tolerance * frames:
            return Fit(model, tuple(history), converged=True)
        previous, model = model, m_step(model, counts)
    return Fit(model, tuple(history))


def sum_counts(counts: Iterable[ExpectedCounts]) -> ExpectedCounts:
    """Return the sum of the expected counts of all groups."""
    total, *rest = counts
    for group in rest:
        total = total + group
    return total
