"""Tests of StateReader: dtype, shape and range of tensors from untrusted checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.statistical.state_reader import StateReader, check_bounds, expect_size

STATE = {
    "a": torch.tensor([0.25, 0.75], dtype=torch.float64),
    "b": torch.eye(2, dtype=torch.float64),
    "c": torch.tensor([3, 0, 7]),
}


def test_valid_tensors_are_returned() -> None:
    reader = StateReader(STATE)
    assert reader.probabilities("a", "K") is STATE["a"]
    assert reader.numbers("b", "K", "K", minimum=0) is STATE["b"]
    assert reader.integers("c", "N", below=8) is STATE["c"]
    assert reader.sizes == {"K": 2, "N": 3}


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(2), "p has dtype torch.float32"),
        (torch.ones(2, 2, dtype=torch.float64), "p has 2 axes"),
        (torch.ones(3, dtype=torch.float64), "p has an axis of size 3, expected 2"),
        (torch.tensor([0.5, -0.1], dtype=torch.float64), "p has values out of range"),
        (torch.tensor([0.5, 1.1], dtype=torch.float64), "p has values out of range"),
        (torch.tensor([0.5, torch.nan], dtype=torch.float64), "p has values out of range"),
    ],
)
def test_invalid_tensors_are_named(tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StateReader({"p": tensor}, K=2).probabilities("p", "K")


@pytest.mark.parametrize("wrong", [{"below": 7}, {"minimum": 1}, {"dtype": torch.int32}])
def test_integers_have_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^c "):
        StateReader(STATE).integers("c", "N", **wrong)


@pytest.mark.parametrize("bounds", [[0, 2, 1, 5], [1, 2, 3, 5], [0, 2, 3, 4], [0, 2, 5], []])
def test_bounds_divide_a_range(bounds: list[int]) -> None:
    check_bounds(torch.tensor([0, 0, 3, 5]), "b", parts=3, last=5)
    with pytest.raises(ValueError, match="b does not divide 0 to 5 into 3 ranges"):
        check_bounds(torch.tensor(bounds), "b", parts=3, last=5)


def test_unexpected_size_is_reported() -> None:
    expect_size(3, 3, "width")
    with pytest.raises(ValueError, match="width is 3, expected 4"):
        expect_size(3, 4, "width")


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("2.words", 1, 9, "2.words has values out of range"),
        ("1.words", 0, 1, "1.words is not the vocabulary"),
        ("2.suffixes", 0, 9, "2.suffixes has values out of range"),
        ("1.continuations", 1, 999, "1.continuations does not divide 0"),
        ("3.log_probs", 0, float("nan"), "3.log_probs has values out of range"),
    ],
)
def test_ngram_tables_must_be_consistent(name: str, index: int, value: float, message: str) -> None:
    tensors = Ngrams.estimate([[4, 5], [5, 6, 4]], order=3, vocabulary=8).to_tensors()
    Ngrams.from_tensors(tensors)
    changed = tensors[name].clone()
    changed[index] = value
    with pytest.raises(ValueError, match=message):
        Ngrams.from_tensors({**tensors, name: changed})
    with pytest.raises(ValueError, match="no n-grams"):
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
    assert Hmm.from_state(state).emission.width == 3
    with pytest.raises(ValueError, match="covariances are not positive definite"):
        Hmm.from_state({**state, "covariances": -covariances})
    with pytest.raises(ValueError, match="start has dtype"):
        Hmm.from_state({**state, "start": torch.ones(2, dtype=torch.int64)})
