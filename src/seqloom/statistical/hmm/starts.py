"""Where Baum-Welch begins: random symbols, or frames in clusters; and the best of several starts."""

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

_CLUSTERED = 20_000  # frames that k-means looks at
_ROUNDS = 20  # of k-means; EM goes on from there anyway


def chain_start(states: int, topology: Topology) -> tuple[Tensor, Tensor]:
    """Start and transitions: all alike; or from the first state on, each step staying or going to the next."""
    if topology == "ergodic":
        return torch.full((states,), 1 / states).double(), torch.full((states, states), 1 / states).double()
    stay = torch.eye(states).double()
    transition = stay + stay.roll(1, 1).triu()
    return stay[0].clone(), transition / transition.sum(1, keepdim=True)


def categorical_start(frequencies: Tensor, states: int, generator: torch.Generator, smoothing: float) -> Hmm:
    """A model whose states have the frequencies of the symbols (V,), each times a random number of mean 1.

    What has no frequency is impossible.
    """
    start, transition = chain_start(states, "ergodic")
    shape = (states, len(frequencies))
    emitted = frequencies.double() * -torch.rand(shape, generator=generator, dtype=torch.float64).log()
    turned = transition * (0.5 + torch.rand(transition.shape, generator=generator, dtype=torch.float64))
    return Hmm(
        start,
        turned / turned.sum(1, keepdim=True),
        Categorical(emitted / emitted.sum(1, keepdim=True), smoothing),
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
    """A model of clustered frames: k-means gives the states, or equal parts of each sequence do (left-right).

    Within a state, k-means gives the components. `floor` is the least variance as a share of the variance of
    all frames, feature by feature.
    """
    rows = [torch.as_tensor(one).double() for one in sequences]
    frames = torch.cat(rows)
    if len(frames) < states * mixtures:
        raise SeqloomError(
            f"{len(frames)} frames are too few for {states} states of {mixtures} components.",
            "give more data, or make the model smaller",
        )
    variance = frames.var(0, correction=0).clamp_min(1e-12)
    scaled = frames / variance.sqrt()
    if topology == "ergodic":
        labels = kmeans(scaled, states, generator)
    else:
        labels = torch.cat([torch.arange(len(row)) * states // len(row) for row in rows])
    emission = _clusters(frames, scaled, labels, states, mixtures, covariance, floor * variance, generator)
    model = Hmm(*chain_start(states, topology), emission)
    return model.counted(rows, labels.split_with_sizes([len(row) for row in rows]), smoothing=1.0)


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
    """A component for each cluster of each state's frames, with the variance of the state."""
    width = frames.shape[1]
    means, spreads = frames.new_empty(states, mixtures, width), frames.new_empty(states, width)
    for state in range(states):
        own = labels == state
        if int(own.sum()) < mixtures:  # too few to be a state of its own: any frames do
            own = torch.ones_like(own)
        inner = kmeans(scaled[own], mixtures, generator)
        means[state] = centres(frames[own], inner, mixtures)
        spreads[state] = frames[own].var(0, correction=0).maximum(floor)
    covariances = spreads.unsqueeze(1).expand(-1, mixtures, -1)
    if covariance == "full":
        covariances = torch.diag_embed(covariances)
    weights = frames.new_full((states, mixtures), 1 / mixtures)
    return Gaussians.of(weights, means, covariances.contiguous(), floor)


def kmeans(frames: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """(N,): the cluster of every frame (N, F), which is never empty if there are as many distinct frames.

    Lloyd's algorithm from centres that are drawn far apart (k-means++, Arthur and Vassilvitskii 2007).
    """
    some = frames[torch.randperm(len(frames), generator=generator)[:_CLUSTERED]]
    centre = some[:1]
    for _ in range(clusters - 1):
        apart = torch.cdist(some, centre).amin(1).square()
        chance = apart if bool(apart.sum() > 0) else torch.ones_like(apart)
        centre = torch.cat((centre, some[chance.multinomial(1, generator=generator)]))
    for _ in range(_ROUNDS):
        labels = torch.cdist(some, centre).argmin(1)
        moved = centres(some, labels, clusters, centre)
        if torch.equal(moved, centre):
            break
        centre = moved
    return torch.cdist(frames, centre).argmin(1)


def centres(frames: Tensor, labels: Tensor, clusters: int, otherwise: Tensor | None = None) -> Tensor:
    """(clusters, F): the mean of each cluster; an empty one has another centre, or that of all frames."""
    counts = torch.bincount(labels, minlength=clusters).unsqueeze(1)
    sums = frames.new_zeros(clusters, frames.shape[1]).index_add_(0, labels, frames)
    empty = frames.mean(0) if otherwise is None else otherwise
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
    """The fit with the highest likelihood from that many starts, each drawn with a seed of its own."""
    fits = []
    for number in range(restarts):
        model = start(torch.Generator().manual_seed(seed + number))
        fits.append(baum_welch(model, model.pack(sequences), iterations=iterations, tolerance=tolerance))
        if restarts > 1:
            logger.info(f"start {number + 1} of {restarts}: log-likelihood {fits[-1].history[-1]:.1f}")
    return max(fits, key=lambda fit: fit.history[-1])
