from __future__ import annotations

import torch

from seqloom.nn.positions import sinusoids


def test_every_position_is_told_apart() -> None:
    table = sinusoids(torch.arange(2000), 16)
    distances = torch.cdist(table, table) + 10 * torch.eye(2000)
    assert distances.min() > 0.05


def test_the_shape_follows_the_positions() -> None:
    assert sinusoids(torch.tensor([[0, 3, 4]]), 6).shape == (1, 3, 6)
    assert sinusoids(torch.tensor(0), 4).tolist() == [0.0, 1.0, 0.0, 1.0]
