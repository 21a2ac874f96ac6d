from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from seqloom.nn.cells import Cell
from seqloom.nn.recurrent import (
    Direction,
    RecurrentEncoder,
    RecurrentStack,
    at_last_position,
    reverse_sequences,
)

X = torch.arange(24).view(3, 4, 2)
LENGTHS = torch.tensor([4, 1, 3])


def _encoder(layers: int, direction: Direction = "both", *, residual: bool = False) -> RecurrentEncoder:
    return RecurrentEncoder(Cell("lstm"), 6, layers, direction, residual=residual, dropout=0.5).train()


def _stack(layers: int, *, residual: bool = False) -> RecurrentStack:
    return RecurrentStack(Cell("gru"), 6, 6, layers, residual=residual, dropout=0.5).train()


def test_only_real_positions_are_reversed() -> None:
    turned = reverse_sequences(X, LENGTHS)[..., 0].tolist()
    assert turned == [[6, 4, 2, 0], [8, 10, 12, 14], [20, 18, 16, 22]]
    assert torch.equal(reverse_sequences(reverse_sequences(X, LENGTHS), LENGTHS), X)


def test_the_last_real_position() -> None:
    assert at_last_position(X, LENGTHS)[:, 0].tolist() == [6, 8, 20]


@pytest.mark.parametrize("layers, random", [(1, False), (2, True)])
def test_dropout_is_between_layers_only(layers: int, random: bool) -> None:
    x = torch.randn(3, 4, 6)
    for direction in ("both", "forward"):
        encoder = _encoder(layers, direction)
        assert torch.equal(encoder(x, LENGTHS)[0], encoder(x, LENGTHS)[0]) is not random
    stack, state = _stack(layers), (torch.zeros(3, layers, 6),)
    assert torch.equal(stack(x, state)[0], stack(x, state)[0]) is not random


def test_dropout_does_not_affect_the_residual_path() -> None:
    encoder, stack = _encoder(2, residual=True), _stack(2, residual=True)
    for layer in (encoder.forwards[1], encoder.backwards[1], stack.layers[1]):
        for weight in layer.parameters():
            weight.data.zero_()  # so its states are zero, and the output equals the input
    x, state = torch.randn(3, 4, 6), (torch.zeros(3, 2, 6),)
    below, _ = encoder._layer(0, x, LENGTHS)
    assert_close(encoder(x, LENGTHS)[0], below, rtol=0.0, atol=0.0)
    assert_close(stack(x, state)[0], stack.layers[0](x)[0], rtol=0.0, atol=0.0)


def test_each_direction_has_half_of_the_width() -> None:
    both, forward = _encoder(2), _encoder(2, "forward")
    assert [layer.width for layer in (*both.forwards, *both.backwards)] == [3] * 4
    assert [layer.width for layer in forward.forwards] == [6] * 2
    assert len(forward.backwards) == 0
