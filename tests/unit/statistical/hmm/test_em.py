"""Baum-Welch: the likelihood rises, restarts keep the best, a fault is told and stops the fit."""

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
def test_the_likelihood_rises_with_floors_and_zeros(
    covariance: str, topology: str, messages: list[str]
) -> None:
    model = start(mixtures=2, covariance=covariance, topology=topology, floor=0.2)
    fit = model.fit(rows(), iterations=30, tolerance=-1.0)
    assert len(fit.history) == 30 and not fit.fell and not messages
    assert fit.history[-1] > fit.history[0] + 1
    assert ((fit.model.transition > 0) <= (model.transition > 0)).all()
    assert float(fit.model.log_likelihood(rows()).sum()) >= fit.history[-1] - 1e-9


def test_a_fall_is_reported_and_stops_the_fit(monkeypatch: pytest.MonkeyPatch, messages: list[str]) -> None:
    learned = Gaussians.maximised

    def faulty(self: Gaussians, statistics: tuple[Tensor, ...]) -> Gaussians:
        good = learned(self, statistics)
        return replace(good, means=good.means + 3.0)

    model = start()
    monkeypatch.setattr(Gaussians, "maximised", faulty)
    fit = model.fit(rows(), iterations=10)
    assert fit.fell and len(fit.history) == 1
    assert "Iteration 1 made the log-likelihood fall" in messages[0] and "stopped" in messages[0]
    assert fit.model is model  # the parameters before the fault


def test_it_ends_when_nothing_is_gained() -> None:
    fit = start().fit(rows(), iterations=500, tolerance=1e-4)
    assert fit.converged and len(fit.history) < 500
    assert fit.history[-1] - fit.history[-2] < 1e-4 * sum(map(len, rows()))


def test_groups_give_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = start(mixtures=2)
    whole = model.fit(rows(), iterations=5, tolerance=-1.0)
    monkeypatch.setattr("seqloom.statistical.hmm.model._VALUES", 60)
    assert len(model.pack(rows())) > 1
    parts = model.fit(rows(), iterations=5, tolerance=-1.0)
    assert parts.history == pytest.approx(whole.history, rel=1e-12)


def test_the_best_of_several_starts_stays(messages: list[str]) -> None:
    options: dict[str, Any] = {"iterations": 20, "tolerance": 1e-6, "seed": 1}

    def begin(generator: torch.Generator) -> Hmm:
        return categorical_start(torch.ones(4), 3, generator, 0.1)

    several = best_fit(begin, symbols(), restarts=4, **options)
    single = [
        begin(torch.Generator().manual_seed(seed)).fit(symbols(), iterations=20, tolerance=1e-6).history[-1]
        for seed in (1, 2, 3, 4)
    ]
    assert several.history[-1] == max(single) and len(set(single)) == 4
    assert [line.split(":")[0] for line in messages] == [f"start {i} of 4" for i in (1, 2, 3, 4)]


def test_sums_add_up() -> None:
    one = ExpectedCounts(1.0, torch.ones(2), torch.ones(2, 2), (torch.ones(1),))
    two = one + one
    assert two.log_likelihood == 2.0 and two.transition.sum() == 8 and two.emission[0] == 2.0


def test_an_impossible_sequence_is_named() -> None:
    emission = Categorical(torch.tensor([[1.0, 0.0], [1.0, 0.0]]).double())
    model = Hmm(torch.ones(2).double() / 2, torch.ones(2, 2).double() / 2, emission)
    given = [torch.tensor([0, 0, 0]), torch.tensor([0, 1])]
    assert model.log_likelihood(given).tolist() == pytest.approx([0.0, -torch.inf])
    for ask in (model.fit, model.posteriors, model.viterbi):
        with pytest.raises(SeqloomError, match="Sequence 2 is impossible"):
            ask(given)


def test_clusters_that_lie_apart_are_found() -> None:
    random = torch.Generator().manual_seed(4)
    middle = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]).double().repeat_interleave(30, 0)
    labels = kmeans(middle + torch.randn(90, 2, generator=random, dtype=torch.float64), 3, random).view(3, 30)
    assert all(len(set(row.tolist())) == 1 for row in labels) and len(set(labels[:, 0].tolist())) == 3


def test_too_few_frames_are_refused() -> None:
    with pytest.raises(SeqloomError, match="2 frames are too few for 3 states of 1 components"):
        gaussian_start([torch.ones(2, 2)], 3, torch.Generator())
