"""Hidden Markov models against hmmlearn with the same initialisation, and against enumeration of all paths."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.statistical.hmm.em import log_density
from seqloom.statistical.hmm.emission import Categorical
from seqloom.statistical.hmm.gaussian import Gaussians
from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.hmm.starts import Covariance, categorical_start, chain_start, gaussian_start

hmmlearn = pytest.importorskip("hmmlearn.hmm")
KINDS = {"diagonal": "diag", "full": "full"}
LENGTHS = (9, 30, 1, 17, 30, 2, 25)


def frames(width: int, seed: int = 1) -> list[Tensor]:
    """Return sequences that alternate between two clusters."""
    random = torch.Generator().manual_seed(seed)
    rows = []
    for length in LENGTHS:
        side = (torch.rand(length, 1, generator=random) > 0.5).double() * 3
        rows.append(side + torch.randn(length, width, generator=random, dtype=torch.float64))
    return rows


def symbols(count: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(2)
    return [torch.randint(count, (length,), generator=random) for length in LENGTHS]


def hmmlearn_model(model: Hmm, kind: str, **options: Any) -> Any:
    """Return hmmlearn's model with the same parameters and flat priors."""
    options |= {"init_params": "", "tol": -np.inf}
    emission = model.emission
    if isinstance(emission, Categorical):
        other = hmmlearn.CategoricalHMM(emission.states, **options)
        other.emissionprob_ = emission.probabilities.numpy()
    elif isinstance(emission, Gaussians) and emission.weights.shape[1] == 1:
        neutral = {"covars_prior": 0.0, "covars_weight": 0.0}
        other = hmmlearn.GaussianHMM(emission.states, covariance_type=KINDS[kind], **neutral, **options)
        other.means_, other.covars_ = emission.means[:, 0].numpy(), emission.covariances[:, 0].numpy()
    else:
        assert isinstance(emission, Gaussians)
        other = hmmlearn.GMMHMM(*emission.weights.shape, covariance_type=KINDS[kind], **options)
        other.weights_, other.means_ = emission.weights.numpy(), emission.means.numpy()
        other.covars_ = emission.covariances.numpy()
    other.startprob_, other.transmat_ = model.start.numpy(), model.transition.numpy()
    return other


def joined(rows: list[Tensor]) -> tuple[Any, list[int]]:
    flat = torch.cat(rows).numpy()
    return (flat.reshape(-1, 1) if flat.ndim == 1 else flat), [len(row) for row in rows]


def start(rows: list[Tensor], states: int, mixtures: int, covariance: Covariance) -> Hmm:
    random = torch.Generator().manual_seed(3)
    return gaussian_start(rows, states, random, mixtures=mixtures, covariance=covariance, floor=0.0)


def check_same_results(model: Hmm, other: Any, rows: list[Tensor]) -> None:
    """Compare log-likelihoods, posteriors and best paths."""
    flat, lengths = joined(rows)
    assert float(model.log_likelihood(rows).sum()) == pytest.approx(other.score(flat, lengths), rel=1e-10)
    log_prob, path = other.decode(flat, lengths)
    found = model.viterbi(rows)
    assert torch.cat([one.states for one in found]).tolist() == path.tolist()
    assert sum(one.log_prob for one in found) == pytest.approx(log_prob, rel=1e-10)
    np.testing.assert_allclose(
        torch.cat(model.posteriors(rows)).numpy(), other.predict_proba(flat, lengths), atol=1e-8
    )


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("mixtures", [1, 2])
def test_features_match_hmmlearn(covariance: Covariance, mixtures: int) -> None:
    rows = frames(3)
    model = start(rows, 3, mixtures, covariance)
    check_same_results(model, hmmlearn_model(model, covariance), rows)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_em_of_gaussians_matches_hmmlearn(covariance: Covariance) -> None:
    rows = frames(2)
    model = start(rows, 3, 1, covariance)
    other = hmmlearn_model(model, covariance, n_iter=10)
    other.fit(*joined(rows))
    fit = model.fit(rows, iterations=10, tolerance=-1.0)
    np.testing.assert_allclose(fit.history, other.monitor_.history, rtol=1e-9)
    emission = fit.model.emission
    assert isinstance(emission, Gaussians)
    np.testing.assert_allclose(fit.model.transition.numpy(), other.transmat_, atol=1e-8)
    np.testing.assert_allclose(fit.model.start.numpy(), other.startprob_, atol=1e-8)
    np.testing.assert_allclose(emission.means[:, 0].numpy(), other.means_, atol=1e-7)
    covariances = emission.covariances[:, 0]
    whole = covariances if covariance == "full" else torch.diag_embed(covariances)
    np.testing.assert_allclose(whole.numpy(), other.covars_, atol=1e-7)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_em_of_mixtures_matches_hmmlearn(covariance: Covariance) -> None:
    """hmmlearn computes covariances around the means of the previous iteration, so they lag slightly."""
    rows = [row for seed in range(6) for row in frames(2, seed)]
    model = start(rows, 2, 2, covariance)
    other = hmmlearn_model(model, covariance, n_iter=5)
    other.fit(*joined(rows))
    fit = model.fit(rows, iterations=5, tolerance=-1.0)
    assert fit.history[0] == pytest.approx(other.monitor_.history[0], rel=1e-10)
    np.testing.assert_allclose(fit.history, other.monitor_.history, rtol=1e-4)
    assert fit.history[-1] > fit.history[0] + 1.0


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_em_of_mixtures_around_the_new_means(covariance: Covariance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with hmmlearn's covariances corrected: Σ r (x − old)² / Σ r − (new − old)² is exact."""
    plain = hmmlearn.GMMHMM._do_mstep

    def around_new_means(self: Any, stats: Any) -> None:
        old = self.means_
        plain(self, stats)
        moved = self.means_ - old
        self.covars_ -= moved[..., None] * moved[..., None, :] if covariance == "full" else moved**2

    monkeypatch.setattr(hmmlearn.GMMHMM, "_do_mstep", around_new_means)
    rows = [row for seed in range(3) for row in frames(2, seed)]
    model = start(rows, 2, 2, covariance)
    other = hmmlearn_model(model, covariance, n_iter=5)
    other.fit(*joined(rows))
    fit = model.fit(rows, iterations=5, tolerance=-1.0)
    np.testing.assert_allclose(fit.history, other.monitor_.history, rtol=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_em_of_symbols_matches_hmmlearn(smoothing: float) -> None:
    rows = symbols(5)
    model = categorical_start(torch.ones(5), 3, torch.Generator().manual_seed(4), smoothing)
    check_same_results(model, hmmlearn_model(model, ""), rows)
    other = hmmlearn_model(model, "", n_iter=10, emissionprob_prior=1.0 + smoothing)
    other.fit(*joined(rows))
    fit = model.fit(rows, iterations=10, tolerance=-1.0)
    emission = fit.model.emission
    assert isinstance(emission, Categorical)
    np.testing.assert_allclose(emission.probabilities.numpy(), other.emissionprob_, atol=1e-9)
    np.testing.assert_allclose(fit.model.transition.numpy(), other.transmat_, atol=1e-9)


def all_paths(model: Hmm, row: Tensor) -> dict[tuple[int, ...], float]:
    """Return P(states, row) of every path."""
    (packed,) = model.pack([row])
    density = log_density(model.emission.log_components(packed.frames)).exp().tolist()
    start, transition = model.start.tolist(), model.transition.tolist()
    found = {}
    for path in product(range(len(start)), repeat=len(row)):
        probability = start[path[0]] * density[0][path[0]]
        for t in range(1, len(row)):
            probability *= transition[path[t - 1]][path[t]] * density[t][path[t]]
        found[path] = probability
    return found


@pytest.mark.parametrize("topology", ["ergodic", "left-right"])
@pytest.mark.parametrize("kind", ["symbols", "features"])
def test_all_paths(kind: str, topology: Any) -> None:
    states = 3
    if kind == "symbols":
        model = categorical_start(torch.ones(4), states, torch.Generator().manual_seed(5), 0.0)
        rows = [row[:6] for row in symbols(4)]
    else:
        rows = [row[:6] for row in frames(2)]
        model = start(rows, states, 2, "full")
    if topology == "left-right":
        model = Hmm(*chain_start(states, topology), model.emission)
    for row, likelihood, path, gamma in zip(
        rows, model.log_likelihood(rows), model.viterbi(rows), model.posteriors(rows), strict=True
    ):
        paths = all_paths(model, row)
        total = sum(paths.values())
        assert likelihood.exp() == pytest.approx(total, rel=1e-9)
        best = max(paths, key=lambda one: paths[one])
        assert tuple(path.states.tolist()) == best
        assert np.exp(path.log_prob) == pytest.approx(paths[best], rel=1e-9)
        for t, state in product(range(len(row)), range(states)):
            share = sum(value for one, value in paths.items() if one[t] == state) / total
            assert float(gamma[t, state]) == pytest.approx(share, abs=1e-9)
