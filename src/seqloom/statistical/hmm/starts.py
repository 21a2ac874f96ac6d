"""Initialisation of Baum-Welch: random emissions or clustered frames, and the best of several fits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.em import Fit, baum_welch
from seqloom.statistical.hmm.emission import Categorical
from seqloom.statistical.hmm.gaussian import Gaussians
from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.hmm.packed import Observations

logger = logging.getLogger(__name__)

Topology = Literal["ergodic", "left-right"]
Covariance = Literal["diagonal", "full"]

_KMEANS_FRAMES = 20_000  # sample size for k-means
_KMEANS_ROUNDS = 20  # enough for an initialisation; EM refines it


def chain_start(states: int, topology: Topology) -> tuple[Tensor, Tensor]:
    """Return start and transitions: uniform, or left-right (from the first state, staying or moving on)."""
    if topology == "ergodic":
        return torch.full((states,), 1 / states).double(), torch.full((states, states), 1 / states).double()
    stay = torch.eye(states).double()
    transition = stay + stay.roll(1, 1).triu()
    return stay[0].clone(), transition / transition.sum(1, keepdim=True)


def categorical_start(frequencies: Tensor, states: int, generator: torch.Generator, smoothing: float) -> Hmm:
    """Return a model whose states emit the symbols (V,) by frequency times a random factor of mean 1.

    Symbols with frequency 0 get probability 0.
    """
    start, transition = chain_start(states, "ergodic")
    shape = (states, len(frequencies))
    emission = frequencies.double() * -torch.rand(shape, generator=generator, dtype=torch.float64).log()
    perturbed = transition * (0.5 + torch.rand(transition.shape, generator=generator, dtype=torch.float64))
    return Hmm(
        start,
        perturbed / perturbed.sum(1, keepdim=True),
        Categorical(emission / emission.sum(1, keepdim=True), smoothing),
    )


def gaussian_start(
    sequences: Sequence[Observations],
    states: int,
    generator: torch.Generator,
    *,
    mixtures: int = 1,
    covariance: Covariance = "diagonal",
    topology: Topology = "ergodic",
    floor: float = 1e-3,
) -> Hmm:
    """Return a model of clustered frames: a state per k-means cluster, or (left-right) per part of a sequence.

    The components of a state come from k-means over its frames. `floor` is the minimum variance as a fraction
    of the variance of all frames, per feature.
    """
    rows = [torch.as_tensor(sequence).double() for sequence in sequences]
    frames = torch.cat(rows)
    if len(frames) < states * mixtures:
        raise SeqloomError(
            f"{len(frames)} frames are too few for {states} states with {mixtures} components each.",
            "give more data, or reduce the number of states or components",
        )
    variance = frames.var(0, correction=0).clamp_min(1e-12)
    scaled = frames / variance.sqrt()
    if topology == "ergodic":
        labels = kmeans(scaled, states, generator)
    else:
        labels = torch.cat([torch.arange(len(row)) * states // len(row) for row in rows])
    emission = _clusters(frames, scaled, labels, states, mixtures, covariance, floor * variance, generator)
    model = Hmm(*chain_start(states, topology), emission)
    return model.fit_supervised(rows, labels.split_with_sizes([len(row) for row in rows]), smoothing=1.0)


def _clusters(
    frames: Tensor,
    scaled: Tensor,
    labels: Tensor,
    states: int,
    mixtures: int,
    covariance: Covariance,
    floor: Tensor,
    generator: torch.Generator,
) -> Gaussians:
    """Return one component per cluster of each state's frames, with the variance of the state."""
    width = frames.shape[1]
    means, variances = frames.new_empty(states, mixtures, width), frames.new_empty(states, width)
    for state in range(states):
        members = labels == state
        if int(members.sum()) < mixtures:  # too few for the components: use all frames
            members = torch.ones_like(members)
        clusters = kmeans(scaled[members], mixtures, generator)
        means[state] = cluster_means(frames[members], clusters, mixtures)
        variances[state] = frames[members].var(0, correction=0).maximum(floor)
    covariances = variances.unsqueeze(1).expand(-1, mixtures, -1)
    if covariance == "full":
        covariances = torch.diag_embed(covariances)
    weights = frames.new_full((states, mixtures), 1 / mixtures)
    return Gaussians.of(weights, means, covariances.contiguous(), floor)


def kmeans(frames: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """Return the cluster of every frame, (N,), given (N, F); with enough distinct frames no cluster is empty.

    Lloyd's algorithm, initialised by k-means++ (Arthur and Vassilvitskii 2007).
    """
    sample = frames[torch.randperm(len(frames), generator=generator)[:_KMEANS_FRAMES]]
    centres = sample[:1]
    for _ in range(clusters - 1):
        distances = torch.cdist(sample, centres).amin(1).square()
        weights = distances if bool(distances.sum() > 0) else torch.ones_like(distances)
        centres = torch.cat((centres, sample[weights.multinomial(1, generator=generator)]))
    for _ in range(_KMEANS_ROUNDS):
        labels = torch.cdist(sample, centres).argmin(1)
        updated = cluster_means(sample, labels, clusters, centres)
        if torch.equal(updated, centres):
            break
        centres = updated
    return torch.cdist(frames, centres).argmin(1)


def cluster_means(frames: Tensor, labels: Tensor, clusters: int, fallback: Tensor | None = None) -> Tensor:
    """Return the mean of each cluster, (clusters, F); of an empty one `fallback`, or the mean of all frames."""
    counts = torch.bincount(labels, minlength=clusters).unsqueeze(1)
    sums = frames.new_zeros(clusters, frames.shape[1]).index_add_(0, labels, frames)
    empty = frames.mean(0) if fallback is None else fallback
    return torch.where(counts > 0, sums / counts.clamp_min(1), empty)


def best_fit(
    start: Callable[[torch.Generator], Hmm],
    sequences: Sequence[Observations],
    *,
    restarts: int,
    seed: int,
    iterations: int,
    tolerance: float,
) -> Fit:
    """Fit from `restarts` initialisations, each with its own seed, and return the most likely fit."""
    fits = []
    for number in range(restarts):
        model = start(torch.Generator().manual_seed(seed + number))
        fits.append(baum_welch(model, model.pack(sequences), iterations=iterations, tolerance=tolerance))
        if restarts > 1:
            logger.info(f"restart {number + 1} of {restarts}: log-likelihood {fits[-1].history[-1]:.1f}")
    return max(fits, key=lambda fit: fit.history[-1])
