from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch

from seqloom.errors import SeqloomError
from seqloom.types import Batch, Example, Head, Request, Step, lengths_to_mask, select_rows


def test_the_mask_of_lengths() -> None:
    mask = lengths_to_mask(torch.tensor([2, 0, 3]), 4)
    assert mask.dtype == torch.bool
    assert mask.int().tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]]


def test_the_masks_of_a_batch() -> None:
    batch = Batch(
        source=torch.tensor([[5, 2, 0], [6, 7, 2]]),
        source_lengths=torch.tensor([2, 3]),
        index=torch.tensor([0, 1]),
        target_in=torch.tensor([[1, 4], [1, 0]]),
        target_lengths=torch.tensor([2, 1]),
    )
    assert torch.equal(batch.source_mask, batch.source != 0)
    assert batch.target_mask.tolist() == [[True, True], [True, False]]


def test_a_batch_moves_with_all_its_tensors() -> None:
    batch = Batch(torch.ones(1, 2), torch.tensor([2]), torch.tensor([0]), target_tokens=7)
    moved = batch.to("meta")
    assert {moved.source.device.type, moved.source_lengths.device.type, moved.index.device.type} == {"meta"}
    assert moved.target_in is None
    assert moved.target_tokens == 7


def test_rows_are_selected_in_every_leaf() -> None:
    tree = {"a": (torch.arange(6).view(3, 2), None), "b": [torch.tensor([10, 20, 30])]}
    chosen = select_rows(tree, torch.tensor([2, 0, 0, 1]))
    assert chosen["a"][0].tolist() == [[4, 5], [0, 1], [0, 1], [2, 3]]
    assert chosen["a"][1] is None
    assert isinstance(chosen["a"], tuple)
    assert isinstance(chosen["b"], list)
    assert chosen["b"][0].tolist() == [30, 10, 10, 20]
    assert select_rows(None, torch.tensor([0])) is None


def test_examples_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        Example("a").source = "b"  # type: ignore[misc]


@pytest.mark.parametrize("head", [Head(2, 0), Head(0, 3), Head(-1, 0), Head(10**9, 0)])
def test_a_head_that_does_not_exist_is_an_error(head: Head) -> None:
    step = Step(torch.zeros(1, 4), None, torch.rand(1, 2, 3, 5))
    looked = step.alignment(Head(1, 2))
    assert looked is not None and torch.equal(looked, step.attention[:, 1, 2])  # type: ignore[index]
    with pytest.raises(SeqloomError, match=r"Layer .* has no head .*: there are 2 layers of 3\."):
        step.alignment(head)


def test_required_words_must_not_be_one_string() -> None:
    assert Request("a", required=("b",)).required == ("b",)
    with pytest.raises(SeqloomError, match=r"Request\.required must be a tuple .* 'bcd'"):
        Request("a", required="bcd")  # type: ignore[arg-type]
