"""Emissions: densities, what is learned from shares, zeros and floors that stay."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import MultivariateNormal

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.emission import Categorical
from seqloom.statistical.hmm.gaussian import Gaussians

RANDOM = torch.Generator().manual_seed(1)
FRAMES = 5 + torch.randn(40, 3, generator=RANDOM, dtype=torch.float64)


def gaussians(covariances: torch.Tensor, floor: float = 0.0) -> Gaussians:
    means = 5 + torch.randn(2, 2, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weights = torch.tensor([[0.3, 0.7], [0.5, 0.5]], dtype=torch.float64)
    return Gaussians.of(weights, means, covariances, torch.full((3,), floor, dtype=torch.float64))


def full() -> torch.Tensor:
    root = torch.randn(2, 2, 3, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return root @ root.mT + torch.eye(3, dtype=torch.float64)


@pytest.mark.parametrize("covariances", [full(), full().diagonal(dim1=2, dim2=3).contiguous()])
def test_densities_are_those_of_torch(covariances: torch.Tensor) -> None:
    emission = gaussians(covariances)
    whole = covariances if covariances.dim() == 4 else torch.diag_embed(covariances)
    expected = (
        MultivariateNormal(emission.means, whole).log_prob(FRAMES[:, None, None]) + emission.weights.log()
    )
    torch.testing.assert_close(emission.parts(emission.prepared(FRAMES)), expected)


@pytest.mark.parametrize("covariances", [full(), full().diagonal(dim1=2, dim2=3).contiguous()])
def test_learning_gives_weighted_moments(covariances: torch.Tensor) -> None:
    emission = gaussians(covariances)
    shares = torch.rand(40, 2, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = emission.maximised(emission.statistics(emission.prepared(FRAMES), shares))
    share = shares[:, 1, 0] / shares[:, 1, 0].sum()
    mean = share @ FRAMES
    spread = ((FRAMES - mean) * share.unsqueeze(1)).T @ (FRAMES - mean)
    torch.testing.assert_close(found.means[1, 0], mean)
    torch.testing.assert_close(found.covariances[1, 0], spread if emission.full else spread.diagonal())
    torch.testing.assert_close(found.weights[1], shares[:, 1].sum(0) / shares[:, 1].sum())


@pytest.mark.parametrize("covariances", [full(), full().diagonal(dim1=2, dim2=3).contiguous()])
def test_no_variance_falls_below_the_floor(covariances: torch.Tensor) -> None:
    emission = gaussians(covariances, floor=0.5)
    shares = torch.zeros(40, 2, 2, dtype=torch.float64)
    shares[0] = 1.0  # one frame has no spread at all
    found = emission.maximised(emission.statistics(emission.prepared(FRAMES), shares))
    half = torch.full((2, 2, 3), 0.5, dtype=torch.float64)
    torch.testing.assert_close(found.covariances, torch.diag_embed(half) if emission.full else half)


def test_a_component_without_frames_stays_as_it_was() -> None:
    emission = gaussians(full())
    shares = torch.zeros(40, 2, 2, dtype=torch.float64)
    shares[:, 0, 0] = 1.0
    found = emission.maximised(emission.statistics(emission.prepared(FRAMES), shares))
    assert torch.equal(found.means[1], emission.means[1])
    assert torch.equal(found.covariances[0, 1], emission.covariances[0, 1])
    assert torch.equal(found.weights[1], emission.weights[1])
    assert found.weights[0].tolist() == [1.0, 0.0]


def test_drawn_frames_have_the_moments() -> None:
    emission = gaussians(full())
    drawn = emission.sample(torch.zeros(20_000, dtype=torch.long), torch.Generator().manual_seed(5))
    mean = emission.weights[0] @ emission.means[0]
    torch.testing.assert_close(drawn.mean(0), mean, atol=0.1, rtol=0.0)
    second = torch.einsum("m,mf,mg->fg", emission.weights[0], emission.means[0], emission.means[0])
    spread = torch.einsum("m,mfg->fg", emission.weights[0], emission.covariances[0]) + second - mean.outer(mean)
    torch.testing.assert_close(torch.cov(drawn.T), spread, atol=0.3, rtol=0.0)


def test_symbols_are_smoothed_but_zeros_stay() -> None:
    emission = Categorical(torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]).double(), smoothing=1.0)
    frames = torch.tensor([0, 0, 1, 2])
    shares = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]).double().unsqueeze(2)
    found = emission.maximised(emission.statistics(frames, shares))
    torch.testing.assert_close(found.probabilities, torch.tensor([[0.75, 0.25, 0.0], [0.2, 0.4, 0.4]]).double())
    assert found.log_prior() == pytest.approx(float(torch.tensor([0.75, 0.25, 0.2, 0.4, 0.4]).log().sum()))


def test_an_unknown_symbol_is_refused() -> None:
    with pytest.raises(SeqloomError, match="symbols from 0 to 7, but the model emits those from 0 to 2"):
        Categorical(torch.ones(2, 3) / 3).prepared(torch.tensor([0, 7]))


def test_a_singular_covariance_is_a_sentence() -> None:
    emission = gaussians(torch.ones(2, 2, 3, 3, dtype=torch.float64))  # all features are the same one
    with pytest.raises(SeqloomError, match="vary in too few directions") as told:
        emission.parts(emission.prepared(FRAMES))
    assert "model.floor" in str(told.value.hint)
