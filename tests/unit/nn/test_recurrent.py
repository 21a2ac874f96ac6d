from __future__ import annotations

import torch

from seqloom.nn.recurrent import BidirectionalLSTM, at_last_position, reverse_sequences

X = torch.arange(24).view(3, 4, 2)
LENGTHS = torch.tensor([4, 1, 3])


def test_only_the_real_part_is_turned_around() -> None:
    turned = reverse_sequences(X, LENGTHS)[..., 0].tolist()
    assert turned == [[6, 4, 2, 0], [8, 10, 12, 14], [20, 18, 16, 22]]
    assert torch.equal(reverse_sequences(reverse_sequences(X, LENGTHS), LENGTHS), X)


def test_the_last_real_position() -> None:
    assert at_last_position(X, LENGTHS)[:, 0].tolist() == [6, 8, 20]


def test_dropout_stands_between_layers_only() -> None:
    x = torch.randn(3, 4, 6)
    for layers, random in ((1, False), (2, True)):
        lstm = BidirectionalLSTM(6, layers, dropout=0.5).train()
        assert torch.equal(lstm(x, LENGTHS)[0], lstm(x, LENGTHS)[0]) is not random
