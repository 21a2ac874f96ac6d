"""Tests of Baum-Welch: the likelihood increases, the best restart is kept, a decrease stops the fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.em import ExpectedCounts
from seqloom.statistical.hmm.emission import Categorical
from seqloom.statistical.hmm.gaussian import Gaussians
from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.hmm.starts import best_fit, categorical_start, gaussian_start, kmeans


def rows(width: int = 2) -> list[Tensor]:
    random = torch.Generator().manual_seed(1)
    return [torch.randn(length, width, generator=random, dtype=torch.float64) for length in (20, 5, 31, 12)]


def symbols() -> list[Tensor]:
    random = torch.Generator().manual_seed(2)
    return [torch.randint(4, (length,), generator=random) for length in (20, 5, 31, 12)]


def start(**options: Any) -> Hmm:
    return gaussian_start(rows(), 3, torch.Generator().manual_seed(3), **options)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("topology", ["ergodic", "left-right"])
def test_likelihood_increases_with_floors_and_zeros(
    covariance: str, topology: str, messages: list[str]
) -> None:
    model = start(mixtures=2, covariance=covariance, topology=topology, floor=0.2)
    fit = model.fit(rows(), iterations=30, tolerance=-1.0)
    assert len(fit.history) == 30 and not fit.decreased and not messages
    assert fit.history[-1] > fit.history[0] + 1
    assert ((fit.model.transition > 0) <= (model.transition > 0)).all()
    assert float(fit.model.log_likelihood(rows()).sum()) >= fit.history[-1] - 1e-9


def test_decrease_is_reported_and_stops_the_fit(monkeypatch: pytest.MonkeyPatch, messages: list[str]) -> None:
    m_step = Gaussians.m_step

    def faulty(self: Gaussians, statistics: tuple[Tensor, ...]) -> Gaussians:
        good = m_step(self, statistics)
        return replace(good, means=good.means + 3.0)

    model = start()
    monkeypatch.setattr(Gaussians, "m_step", faulty)
    fit = model.fit(rows(), iterations=10)
    assert fit.decreased and len(fit.history) == 1
    assert "iteration 1 decreased the log-likelihood" in messages[0] and "stopped" in messages[0]
    assert fit.model is model  # the parameters before the decrease


def test_fit_stops_on_convergence() -> None:
    fit = start().fit(rows(), iterations=500, tolerance=1e-4)
    assert fit.converged and len(fit.history) < 500
    assert fit.history[-1] - fit.history[-2] < 1e-4 * sum(map(len, rows()))


def test_grouping_does_not_change_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    model = start(mixtures=2)
    ungrouped = model.fit(rows(), iterations=5, tolerance=-1.0)
    monkeypatch.setattr("seqloom.statistical.hmm.model._GROUP_SIZE", 60)
    assert len(model.pack(rows())) > 1
    grouped = model.fit(rows(), iterations=5, tolerance=-1.0)
    assert grouped.history == pytest.approx(ungrouped.history, rel=1e-12)


def test_best_restart_is_kept(messages: list[str]) -> None:
    options: dict[str, Any] = {"iterations": 20, "tolerance": 1e-6, "seed": 1}

    def begin(generator: torch.Generator) -> Hmm:
        return categorical_start(torch.ones(4), 3, generator, 0.1)

    several = best_fit(begin, symbols(), restarts=4, **options)
    single = [
        begin(torch.Generator().manual_seed(seed)).fit(symbols(), iterations=20, tolerance=1e-6).history[-1]
        for seed in (1, 2, 3, 4)
    ]
    assert several.history[-1] == max(single) and len(set(single)) == 4
    assert [line.split(":")[0] for line in messages] == [f"restart {i} of 4" for i in (1, 2, 3, 4)]


def test_expected_counts_add_up() -> None:
    one = ExpectedCounts(1.0, torch.ones(2), torch.ones(2, 2), (torch.ones(1),))
    two = one + one
    assert two.log_likelihood == 2.0 and two.transition.sum() == 8 and two.emission[0] == 2.0


def test_impossible_sequence_is_named() -> None:
    emission = Categorical(torch.tensor([[1.0, 0.0], [1.0, 0.0]]).double())
    model = Hmm(torch.ones(2).double() / 2, torch.ones(2, 2).double() / 2, emission)
    sequences = [torch.tensor([0, 0, 0]), torch.tensor([0, 1])]
    assert model.log_likelihood(sequences).tolist() == pytest.approx([0.0, -torch.inf])
    for method in (model.fit, model.posteriors, model.viterbi):
        with pytest.raises(SeqloomError, match="Sequence 2 has probability 0"):
            method(sequences)


def test_kmeans_finds_separate_clusters() -> None:
    random = torch.Generator().manual_seed(4)
    middle = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]).double().repeat_interleave(30, 0)
    labels = kmeans(middle + torch.randn(90, 2, generator=random, dtype=torch.float64), 3, random).view(3, 30)
    assert all(len(set(row.tolist())) == 1 for row in labels) and len(set(labels[:, 0].tolist())) == 3


def test_too_few_frames_are_an_error() -> None:
    with pytest.raises(SeqloomError, match="2 frames are too few for 3 states"):
        gaussian_start([torch.ones(2, 2)], 3, torch.Generator())
