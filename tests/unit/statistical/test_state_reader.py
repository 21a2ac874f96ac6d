"""Tensors of a stranger: each has the type, the shape and the numbers that it must have, or is named."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.statistical.state_reader import StateReader, check_bounds, expect

STATE = {
    "a": torch.tensor([0.25, 0.75], dtype=torch.float64),
    "b": torch.eye(2, dtype=torch.float64),
    "c": torch.tensor([3, 0, 7]),
}


def test_what_fits_comes_back() -> None:
    given = StateReader(STATE)
    assert given.probabilities("a", "K") is STATE["a"]
    assert given.numbers("b", "K", "K", least=0) is STATE["b"]
    assert given.integers("c", "N", below=8) is STATE["c"]
    assert given.sizes == {"K": 2, "N": 3}


@pytest.mark.parametrize(
    ("tensor", "told"),
    [
        (torch.ones(2), "p is of type torch.float32, not torch.float64"),
        (torch.ones(2, 2, dtype=torch.float64), "p has 2 axes, not 1"),
        (torch.ones(3, dtype=torch.float64), "p has 3 where 2 were to be expected"),
        (torch.tensor([0.5, -0.1], dtype=torch.float64), "p has numbers that cannot be"),
        (torch.tensor([0.5, 1.1], dtype=torch.float64), "p has numbers that cannot be"),
        (torch.tensor([0.5, torch.nan], dtype=torch.float64), "p has numbers that cannot be"),
    ],
)
def test_what_does_not_fit_is_told(tensor: torch.Tensor, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        StateReader({"p": tensor}, K=2).probabilities("p", "K")


@pytest.mark.parametrize("wrong", [{"below": 7}, {"least": 1}, {"dtype": torch.int32}])
def test_integers_have_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^c "):
        StateReader(STATE).integers("c", "N", **wrong)


@pytest.mark.parametrize("bounds", [[0, 2, 1, 5], [1, 2, 3, 5], [0, 2, 3, 4], [0, 2, 5], []])
def test_bounds_lead_from_nothing_to_the_end(bounds: list[int]) -> None:
    check_bounds(torch.tensor([0, 0, 3, 5]), "b", parts=3, last=5)
    with pytest.raises(ValueError, match="b does not lead from 0 to 5 in 3 parts"):
        check_bounds(torch.tensor(bounds), "b", parts=3, last=5)


def test_sizes_are_expected() -> None:
    expect(3, 3, "the width")
    with pytest.raises(ValueError, match="the width is 3 instead of 4"):
        expect(3, 4, "the width")


@pytest.mark.parametrize(
    ("name", "place", "number", "told"),
    [
        ("2.words", 1, 9, "2.words has numbers that cannot be"),
        ("1.words", 0, 1, "1.words is not the vocabulary"),
        ("2.suffixes", 0, 9, "2.suffixes has numbers that cannot be"),
        ("1.continuations", 1, 999, "1.continuations does not lead from 0"),
        ("3.log_probs", 0, float("nan"), "3.log_probs has numbers that cannot be"),
    ],
)
def test_tables_of_ngrams_must_fit_together(name: str, place: int, number: float, told: str) -> None:
    tensors = Ngrams.estimate([[4, 5], [5, 6, 4]], order=3, vocabulary=8).to_tensors()
    Ngrams.from_tensors(tensors)
    changed = tensors[name].clone()
    changed[place] = number
    with pytest.raises(ValueError, match=told):
        Ngrams.from_tensors({**tensors, name: changed})
    with pytest.raises(ValueError, match="there are no n-grams"):
        Ngrams.from_tensors({})


@pytest.mark.parametrize("full", [False, True])
def test_covariances_must_be_positive(full: bool) -> None:
    real = torch.float64
    covariances = torch.eye(3, dtype=real).expand(2, 1, 3, 3) if full else torch.ones(2, 1, 3, dtype=real)
    state = {
        "start": torch.full((2,), 0.5, dtype=real),
        "transition": torch.full((2, 2), 0.5, dtype=real),
        "weights": torch.ones(2, 1, dtype=real),
        "means": torch.zeros(2, 1, 3, dtype=real),
        "covariances": covariances,
        "floor": torch.zeros(3, dtype=real),
    }
    assert Hmm.of(state).emission.width == 3
    with pytest.raises(ValueError, match="covariances are not all positive"):
        Hmm.of({**state, "covariances": -covariances})
    with pytest.raises(ValueError, match="start is of type"):
        Hmm.of({**state, "start": torch.ones(2, dtype=torch.int64)})
