"""The loss of vectors and distributions equals the losses of torch.nn, and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from seqloom.data.batching import collate_ids
from seqloom.training.loss import vector_loss


@pytest.mark.parametrize("distributions", [False, True])
def test_the_loss_is_that_of_torch(distributions: bool) -> None:
    random = torch.Generator().manual_seed(1)
    targets = [torch.rand(length, 3, generator=random) for length in (2, 4, 1)]
    if distributions:
        targets = [target / target.sum(1, keepdim=True) for target in targets]
    batch = collate_ids([[4], [5, 6], [7]], [target.numpy() for target in targets], range(3))
    outputs = torch.randn(3, 5, 4, generator=random)
    found = vector_loss(outputs, batch, distributions=distributions)
    expected = 0.0
    for row, target in zip(outputs, targets, strict=True):
        length = len(target)
        ends = torch.zeros(length + 1)
        ends[-1] = 1
        expected += nn.BCEWithLogitsLoss(reduction="sum")(row[: length + 1, 3], ends).item()
        if distributions:
            expected += nn.CrossEntropyLoss(reduction="sum")(row[:length, :3], target).item()
        else:
            expected += length * nn.MSELoss()(row[:length, :3], target).item()
    assert found.total.item() == pytest.approx(expected, rel=1e-5)
    assert batch.target_tokens == 7 + 3


def test_the_cross_entropy_of_given_distributions_is_that_of_numpy() -> None:
    target = np.array([[0.7, 0.2, 0.1]], np.float32)
    batch = collate_ids([[4]], [target], [0])
    outputs = torch.tensor([[[1.0, 2.0, -1.0, -30.0], [0.0, 0.0, 0.0, 30.0]]])
    numbers = np.array([1.0, 2.0, -1.0])
    expected = -(target[0] * (numbers - np.log(np.exp(numbers).sum()))).sum()
    assert vector_loss(outputs, batch, distributions=True).total.item() == pytest.approx(expected, rel=1e-5)


def test_vectors_are_shifted_by_one_position() -> None:
    batch = collate_ids(
        [[4], [5]], [np.array([[1.0], [2.0]], np.float32), np.array([[3.0]], np.float32)], range(2)
    )
    assert batch.target_in is not None and batch.target_out is not None and batch.target_lengths is not None
    assert batch.target_in[..., 0].tolist() == [[0, 1, 2], [0, 3, 0]]
    assert batch.target_out[..., 0].tolist() == [[1, 2, 0], [3, 0, 0]]
    assert batch.target_lengths.tolist() == [3, 2]
