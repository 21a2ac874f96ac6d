"""Tests of emissions: densities, the M step, zeros and variance floors."""

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
def test_densities_match_torch(covariances: torch.Tensor) -> None:
    emission = gaussians(covariances)
    whole = covariances if covariances.dim() == 4 else torch.diag_embed(covariances)
    expected = (
        MultivariateNormal(emission.means, whole).log_prob(FRAMES[:, None, None]) + emission.weights.log()
    )
    torch.testing.assert_close(emission.log_components(emission.prepare(FRAMES)), expected)


@pytest.mark.parametrize("covariances", [full(), full().diagonal(dim1=2, dim2=3).contiguous()])
def test_m_step_returns_weighted_moments(covariances: torch.Tensor) -> None:
    emission = gaussians(covariances)
    responsibilities = torch.rand(40, 2, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = emission.m_step(emission.statistics(emission.prepare(FRAMES), responsibilities))
    share = responsibilities[:, 1, 0] / responsibilities[:, 1, 0].sum()
    mean = share @ FRAMES
    spread = ((FRAMES - mean) * share.unsqueeze(1)).T @ (FRAMES - mean)
    torch.testing.assert_close(found.means[1, 0], mean)
    torch.testing.assert_close(found.covariances[1, 0], spread if emission.full else spread.diagonal())
    torch.testing.assert_close(found.weights[1], responsibilities[:, 1].sum(0) / responsibilities[:, 1].sum())


@pytest.mark.parametrize("covariances", [full(), full().diagonal(dim1=2, dim2=3).contiguous()])
def test_variances_respect_the_floor(covariances: torch.Tensor) -> None:
    emission = gaussians(covariances, floor=0.5)
    responsibilities = torch.zeros(40, 2, 2, dtype=torch.float64)
    responsibilities[0] = 1.0  # a single frame has no variance
    found = emission.m_step(emission.statistics(emission.prepare(FRAMES), responsibilities))
    half = torch.full((2, 2, 3), 0.5, dtype=torch.float64)
    torch.testing.assert_close(found.covariances, torch.diag_embed(half) if emission.full else half)


def test_component_without_frames_is_unchanged() -> None:
    emission = gaussians(full())
    responsibilities = torch.zeros(40, 2, 2, dtype=torch.float64)
    responsibilities[:, 0, 0] = 1.0
    found = emission.m_step(emission.statistics(emission.prepare(FRAMES), responsibilities))
    assert torch.equal(found.means[1], emission.means[1])
    assert torch.equal(found.covariances[0, 1], emission.covariances[0, 1])
    assert torch.equal(found.weights[1], emission.weights[1])
    assert found.weights[0].tolist() == [1.0, 0.0]


def test_samples_have_the_right_moments() -> None:
    emission = gaussians(full())
    drawn = emission.sample(torch.zeros(20_000, dtype=torch.long), torch.Generator().manual_seed(5))
    mean = emission.weights[0] @ emission.means[0]
    torch.testing.assert_close(drawn.mean(0), mean, atol=0.1, rtol=0.0)
    second = torch.einsum("m,mf,mg->fg", emission.weights[0], emission.means[0], emission.means[0])
    spread = torch.einsum("m,mfg->fg", emission.weights[0], emission.covariances[0]) + second - mean.outer(mean)
    torch.testing.assert_close(torch.cov(drawn.T), spread, atol=0.3, rtol=0.0)


def test_smoothing_keeps_zeros() -> None:
    emission = Categorical(torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]).double(), smoothing=1.0)
    frames = torch.tensor([0, 0, 1, 2])
    responsibilities = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]).double().unsqueeze(2)
    found = emission.m_step(emission.statistics(frames, responsibilities))
    torch.testing.assert_close(found.probabilities, torch.tensor([[0.75, 0.25, 0.0], [0.2, 0.4, 0.4]]).double())
    assert found.log_prior() == pytest.approx(float(torch.tensor([0.75, 0.25, 0.2, 0.4, 0.4]).log().sum()))


def test_unknown_symbol_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="Symbols range from 0 to 7, but the model emits 0 to 2"):
        Categorical(torch.ones(2, 3) / 3).prepare(torch.tensor([0, 7]))


def test_singular_covariance_is_an_error() -> None:
    emission = gaussians(torch.ones(2, 2, 3, 3, dtype=torch.float64))  # all features are equal
    with pytest.raises(SeqloomError, match="singular covariance") as error:
        emission.log_components(emission.prepare(FRAMES))
    assert "model.floor" in str(error.value.hint)
