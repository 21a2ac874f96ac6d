from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from seqloom.nn import cells
from seqloom.nn.cells import Cell, CellName, CellWeights, Initial, RecurrentLayer, State
from seqloom.nn.recurrent import RecurrentStack

INPUTS, WIDTH = 5, 6
GATES: dict[CellName, int] = {"rnn": 1, "gru": 3, "lstm": 4}


def _weights(name: CellName, init: Initial = "uniform", forget_bias: float = 0.0) -> CellWeights:
    torch.manual_seed(1)
    return RecurrentLayer(Cell(name, init=init, forget_bias=forget_bias), INPUTS, WIDTH).weights()


@pytest.mark.parametrize("name", GATES)
def test_orthogonal_makes_the_hidden_matrix_of_every_gate_orthogonal(name: CellName) -> None:
    plain, chosen = _weights(name), _weights(name, "orthogonal")
    gates = chosen.hidden.view(GATES[name], WIDTH, WIDTH)
    for gate in gates:
        assert_close(gate @ gate.T, torch.eye(WIDTH))
    assert len({gate[0, 0].item() for gate in gates}) == GATES[name]  # all different
    for matrix in plain.hidden.view(GATES[name], WIDTH, WIDTH):
        assert not torch.allclose(matrix @ matrix.T, torch.eye(WIDTH), atol=0.1)
    # Nothing else changes.
    assert torch.equal(chosen.input, plain.input)
    assert torch.equal(chosen.input_bias, plain.input_bias)
    assert torch.equal(chosen.hidden_bias, plain.hidden_bias)


def test_the_forget_bias_is_added_to_the_forget_gate_only() -> None:
    plain, biased = _weights("lstm"), _weights("lstm", forget_bias=1.5)
    added = (biased.input_bias + biased.hidden_bias - plain.input_bias - plain.hidden_bias).view(4, WIDTH)
    expected = torch.zeros(4, WIDTH)
    expected[1] = 1.5  # torch's order: input, forget, new content, output
    assert_close(added, expected)
    assert torch.equal(biased.input, plain.input) and torch.equal(biased.hidden, plain.hidden)


@pytest.mark.parametrize("name", ["rnn", "gru"])
def test_a_cell_without_a_forget_gate_ignores_the_forget_bias(name: CellName) -> None:
    assert_close(_weights(name, forget_bias=3.0), _weights(name), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("kernel", ["fused", "steps"])
def test_an_open_forget_gate_keeps_the_cell(kernel: Any) -> None:
    def cell_after(forget_bias: float) -> torch.Tensor:
        layer = RecurrentLayer(Cell("lstm", forget_bias=forget_bias, kernel=kernel), INPUTS, WIDTH)
        for weight in (layer.weights().input, layer.weights().hidden):
            weight.data[2 * WIDTH : 3 * WIDTH] = 0  # no new content
        for bias in (layer.weights().input_bias, layer.weights().hidden_bias):
            bias.data[2 * WIDTH : 3 * WIDTH] = 0
        state: State
        _, state = layer(torch.randn(2, 100, INPUTS), (torch.zeros(2, WIDTH), start))
        return state[1]

    start = torch.randn(2, WIDTH)
    assert_close(cell_after(1e4), start, rtol=0.0, atol=0.0)
    assert cell_after(-1e4).abs().max() == 0
    assert cell_after(0.0).abs().max() < 1e-9


@pytest.mark.parametrize("name", GATES)
def test_the_selected_kernel_is_used(name: CellName, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, tests that compare the two would compare one with itself."""
    fused, steps = (RecurrentLayer(Cell(name, kernel=kernel), INPUTS, WIDTH) for kernel in ("fused", "steps"))

    def forbidden(*_: Any) -> None:
        raise AssertionError("not this one")

    x = torch.randn(2, 3, INPUTS)
    monkeypatch.setattr(steps.fused, "forward", forbidden)
    assert steps(x)[0].shape == (2, 3, WIDTH)
    monkeypatch.setattr(cells, f"{name}_cell", forbidden)
    assert fused(x)[0].shape == (2, 3, WIDTH)


def test_only_an_lstm_has_a_cell_in_addition_to_its_hidden_state() -> None:
    for name, parts in (("rnn", 1), ("gru", 1), ("lstm", 2)):
        layer = RecurrentLayer(Cell(name), INPUTS, WIDTH)  # type: ignore[arg-type]
        _, state = layer(torch.randn(2, 3, INPUTS))
        assert layer.cell.parts == len(state) == parts
        assert all(part.shape == (2, WIDTH) for part in state)


class Doubling(Cell):
    """Cell with h' = 2 h + x, independent of the weights."""

    def step(self, x: Tensor, state: State, weights: CellWeights) -> State:
        return (2 * state[0] + x,)


def test_a_subclass_is_computed_by_its_own_equations() -> None:
    x = torch.randn(2, 3, WIDTH)
    layer = RecurrentLayer(Doubling("rnn"), WIDTH, WIDTH)
    assert_close(layer(x)[0][:, 2], 4 * x[:, 0] + 2 * x[:, 1] + x[:, 2])
    stack = RecurrentStack(Doubling("gru"), WIDTH, WIDTH, 1, residual=False, dropout=0.0)
    assert_close(stack(x, (torch.zeros(2, 1, WIDTH),))[0], layer(x)[0])
