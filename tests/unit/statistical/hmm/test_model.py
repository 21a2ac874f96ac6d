"""Tests of Hmm: supervised counts, sampling, state dict, precision."""

from __future__ import annotations

import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.statistical.hmm.emission import Categorical
from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.hmm.starts import categorical_start, gaussian_start


def model() -> Hmm:
    start = torch.tensor([0.9, 0.1]).double()
    transition = torch.tensor([[0.7, 0.3], [0.0, 1.0]]).double()
    return Hmm(start, transition, Categorical(torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]]).double()))


def test_known_states_are_counted() -> None:
    rows, paths = [[0, 0, 2], [1]], [[0, 0, 1], [1]]
    found = model().fit_supervised([torch.tensor(row) for row in rows], [torch.tensor(path) for path in paths])
    assert found.start.tolist() == [0.5, 0.5]
    assert found.transition.tolist() == [
        [0.5, 0.5],
        [0.0, 1.0],
    ]  # row 2: no transition, so unchanged
    assert found.emission.state_dict()["probabilities"].tolist() == [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]


def test_smoothing_skips_impossible_transitions() -> None:
    found = model().fit_supervised([torch.tensor([0, 0, 2])], [torch.tensor([0, 0, 1])], smoothing=1.0)
    assert found.transition.tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert found.start.tolist() == pytest.approx([2 / 3, 1 / 3])


def test_missing_states_are_an_error() -> None:
    with pytest.raises(SeqloomError, match="Sequence 2 has 3 frames and 1 states"):
        model().fit_supervised([torch.zeros(1), torch.zeros(3)], [torch.zeros(1).long(), torch.zeros(1).long()])


def test_samples_follow_the_model_and_the_seed() -> None:
    drawn = [model().sample(2, torch.Generator().manual_seed(seed)) for seed in range(2000)]
    states = torch.stack([states for states, _ in drawn])
    frames = torch.stack([frames for _, frames in drawn])
    assert float((states[:, 0] == 0).double().mean()) == pytest.approx(0.9, abs=0.03)
    stayed = states[states[:, 0] == 0, 1] == 0
    assert float(stayed.double().mean()) == pytest.approx(0.7, abs=0.04)
    assert not (states[states[:, 0] == 1, 1] == 0).any()
    assert float((frames[states == 1] == 2).double().mean()) == pytest.approx(0.7, abs=0.04)
    again = model().sample(2, torch.Generator().manual_seed(5))
    assert torch.equal(again[0], drawn[5][0]) and torch.equal(again[1], drawn[5][1])


def test_fit_recovers_the_model_from_samples() -> None:
    random = torch.Generator().manual_seed(6)
    rows = [model().sample(30, random)[1] for _ in range(300)]
    fit = model().fit(rows, iterations=30, tolerance=1e-6)
    torch.testing.assert_close(fit.model.transition, model().transition, atol=0.05, rtol=0.0)
    emission = fit.model.emission.state_dict()["probabilities"]
    torch.testing.assert_close(emission, model().emission.state_dict()["probabilities"], atol=0.05, rtol=0.0)


@pytest.mark.parametrize("kind", ["symbols", "diagonal", "full"])
def test_state_dict_round_trip(kind: str) -> None:
    random = torch.Generator().manual_seed(7)
    if kind == "symbols":
        rows = [torch.randint(5, (9,), generator=random)]
        first = categorical_start(torch.ones(5), 3, random, 0.0)
    else:
        rows = [torch.randn(30, 2, generator=random, dtype=torch.float64)]
        first = gaussian_start(rows, 3, random, mixtures=2, covariance=kind)  # type: ignore[arg-type]
    again = Hmm.from_state(first.state_dict())
    torch.testing.assert_close(again.log_likelihood(rows), first.log_likelihood(rows))
    assert again.fit(rows, iterations=3).history == pytest.approx(first.fit(rows, iterations=3).history)


def test_results_do_not_depend_on_other_sequences() -> None:
    random = torch.Generator().manual_seed(8)
    rows = [torch.randint(3, (length,), generator=random) for length in (4, 9, 1, 6)]
    together = model().log_likelihood(rows)
    assert together.tolist() == pytest.approx([float(model().log_likelihood([row])) for row in rows], rel=1e-12)
    paths = [path.states.tolist() for path in model().viterbi(rows)]
    assert paths == [model().viterbi([row])[0].states.tolist() for row in rows]


def test_single_precision_fits_the_same_model() -> None:
    random = torch.Generator().manual_seed(9)
    rows = [torch.randint(3, (20,), generator=random) for _ in range(5)]
    single = Hmm(
        model().start.float(),
        model().transition.float(),
        Categorical(model().emission.state_dict()["probabilities"].float()),
    )
    found = single.fit(rows, iterations=5, tolerance=-1.0)
    assert found.model.start.dtype == torch.float32 and not found.decreased
    assert found.history == pytest.approx(model().fit(rows, iterations=5, tolerance=-1.0).history, rel=1e-5)


def test_no_sequences_are_an_error() -> None:
    with pytest.raises(SeqloomError, match="There are no sequences"):
        model().fit([])
