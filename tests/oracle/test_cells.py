"""Our recurrent cells against torch's, and against the equations in NumPy: values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from seqloom.nn.cells import Activation, Cell, CellName, Kernel, RecurrentLayer, State

Array = np.ndarray[Any, np.dtype[np.float64]]

ROWS, STEPS, INPUTS, WIDTH = 3, 6, 5, 4
CELLS: list[tuple[CellName, Activation]] = [
    ("rnn", "tanh"),
    ("rnn", "relu"),
    ("rnn", "identity"),
    ("rnn", "sigmoid"),
    ("lstm", "tanh"),
    ("gru", "tanh"),
]
KERNELS: list[Kernel] = ["fused", "steps"]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
PARAMETERS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")

over_cells = pytest.mark.parametrize("name, activation", CELLS, ids=lambda value: value)
over_kernels = pytest.mark.parametrize("kernel", KERNELS)


def _random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _start(name: CellName) -> State:
    return tuple(0.8 * _random(ROWS, WIDTH, seed=part) for part in range(2 if name == "lstm" else 1))


X = _random(ROWS, STEPS, INPUTS, seed=7)


def _layer(name: CellName, activation: Activation, kernel: Kernel) -> RecurrentLayer:
    layer = RecurrentLayer(Cell(name, activation, kernel=kernel), INPUTS, WIDTH).double()
    for number, weight in enumerate(layer.parameters()):
        weight.data = 0.5 * _random(*weight.shape, seed=10 + number)
    return layer


def _torchs(name: CellName, activation: Activation) -> nn.RNNBase:
    """torch's module with the same weights, which a name apiece says where they belong."""
    kinds = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
    chosen = {"nonlinearity": activation} if name == "rnn" else {}
    module: nn.RNNBase = kinds[name](INPUTS, WIDTH, batch_first=True, **chosen)
    module.double().load_state_dict(_layer(name, activation, "fused").fused.state_dict())
    return module


def _run_torchs(module: nn.RNNBase) -> Callable[[Tensor, State], tuple[Tensor, State]]:
    def run(x: Tensor, state: State) -> tuple[Tensor, State]:
        before = tuple(part[None] for part in state)
        outputs, after = module(x, before if len(before) == 2 else before[0])
        return outputs, tuple(part[0] for part in (after if len(before) == 2 else (after,)))

    return run


def _measured(
    run: Callable[[Tensor, State], tuple[Tensor, State]],
    weights: Iterable[Tensor],
    state: State,
    dtype: torch.dtype,
) -> dict[str, Tensor]:
    """Outputs, last state, and the gradient of a random sum of both with respect to all that went in."""
    x = X.to(dtype, copy=True).requires_grad_()
    state = tuple(part.to(dtype).requires_grad_() for part in state)
    outputs, after = run(x, state)
    results = (outputs, *after)
    total = torch.stack(
        [(part * _random(*part.shape, seed=20 + n).to(dtype)).mean() for n, part in enumerate(results)]
    ).sum()
    found = {"outputs": outputs} | {f"state {n}": part for n, part in enumerate(after)}
    leaves = {"input": x} | {f"start {n}": part for n, part in enumerate(state)}
    leaves |= dict(zip(PARAMETERS, weights, strict=True))
    gradients = torch.autograd.grad(total, list(leaves.values()))
    return found | {f"gradient of {name}": value for name, value in zip(leaves, gradients, strict=True)}


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@over_kernels
@pytest.mark.parametrize("name, activation", [case for case in CELLS if case[1] in ("tanh", "relu")])
def test_a_layer_is_torchs_in_values_and_gradients(
    name: CellName, activation: Activation, kernel: Kernel, dtype: torch.dtype
) -> None:
    ours, theirs = _layer(name, activation, kernel).to(dtype), _torchs(name, activation).to(dtype)
    expected = _measured(_run_torchs(theirs), theirs.parameters(), _start(name), dtype)
    given = _measured(ours, ours.weights(), _start(name), dtype)
    assert_close(given, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@over_cells
def test_the_equations_are_the_fused_kernel(name: CellName, activation: Activation, dtype: torch.dtype) -> None:
    steps, fused = (_layer(name, activation, kernel).to(dtype) for kernel in ("steps", "fused"))
    expected = _measured(steps, steps.weights(), _start(name), dtype)
    given = _measured(fused, fused.weights(), _start(name), dtype)
    assert_close(given, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


SIGMA: dict[Activation, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "identity": lambda x: x,
    "sigmoid": _sigmoid,
}


def _gates(layer: RecurrentLayer, names: str) -> tuple[dict[str, Array], ...]:
    """U, W, and the two biases, of each gate by its letter, in the order of torch's documentation."""
    stacked = (parameter.detach().numpy() for parameter in layer.parameters())
    return tuple(dict(zip(names, np.split(block, len(names)), strict=True)) for block in stacked)


def _numpy_rnn(layer: RecurrentLayer, x: Array, state: list[Array], activation: Activation) -> list[Array]:
    """h' = σ(W h + U x + b)."""
    U, W, b, b_ = _gates(layer, "h")
    return [SIGMA[activation](W["h"] @ state[0] + U["h"] @ x + b["h"] + b_["h"])]


def _numpy_lstm(layer: RecurrentLayer, x: Array, state: list[Array], activation: Activation) -> list[Array]:
    """The six equations of the lecture notes, a row at a time."""
    U, W, b, b_ = _gates(layer, "ifco")
    h, c = state
    gate = {name: W[name] @ h + U[name] @ x + b[name] + b_[name] for name in "ifco"}
    c = _sigmoid(gate["f"]) * c + _sigmoid(gate["i"]) * np.tanh(gate["c"])
    return [_sigmoid(gate["o"]) * np.tanh(c), c]


def _numpy_gru(layer: RecurrentLayer, x: Array, state: list[Array], activation: Activation) -> list[Array]:
    """Cho et al. 2014, the reset gate applied behind the matrix."""
    U, W, b, b_ = _gates(layer, "rzn")
    (h,) = state
    r = _sigmoid(W["r"] @ h + U["r"] @ x + b["r"] + b_["r"])
    z = _sigmoid(W["z"] @ h + U["z"] @ x + b["z"] + b_["z"])
    n = np.tanh(U["n"] @ x + b["n"] + r * (W["n"] @ h + b_["n"]))
    return [(1 - z) * n + z * h]


NUMPY = {"rnn": _numpy_rnn, "lstm": _numpy_lstm, "gru": _numpy_gru}


@over_kernels
@over_cells
def test_a_layer_follows_the_equations(name: CellName, activation: Activation, kernel: Kernel) -> None:
    layer, start = _layer(name, activation, kernel), _start(name)
    outputs, after = layer(X, start)
    for row in range(ROWS):
        state = [part[row].numpy() for part in start]
        for step in range(STEPS):
            state = NUMPY[name](layer, X[row, step].numpy(), state, activation)
            assert outputs[row, step].detach().numpy() == pytest.approx(state[0], abs=1e-12)
        for ours, expected in zip(after, state, strict=True):
            assert ours[row].detach().numpy() == pytest.approx(expected, abs=1e-12)


SLOPE: dict[Activation, Callable[[Array], Array]] = {  # σ' from the value of σ
    "tanh": lambda h: 1 - h**2,
    "relu": lambda h: (h > 0).astype(float),
    "identity": np.ones_like,
    "sigmoid": lambda h: h * (1 - h),
}


@over_kernels
@pytest.mark.parametrize("activation", list(SLOPE))
def test_the_gradient_of_a_simple_rnn_is_backpropagation_through_time(
    activation: Activation, kernel: Kernel
) -> None:
    """δ_t = σ'(h_t) (g_t + Wᵀ δ_{t+1}), and every gradient a sum of it with what it was multiplied by."""
    layer, (start,) = _layer("rnn", activation, kernel), _start("rnn")
    x, h0 = X.clone().requires_grad_(), start.clone().requires_grad_()
    upstream = _random(ROWS, STEPS, WIDTH, seed=3)
    outputs, _ = layer(x, (h0,))
    weights = layer.weights()
    given = torch.autograd.grad((outputs * upstream).sum(), (x, h0, *weights))
    h, U, W = outputs.detach().numpy(), weights.input.detach().numpy(), weights.hidden.detach().numpy()
    before = np.concatenate((start.numpy()[:, None], h[:, :-1]), axis=1)
    delta, later = np.zeros_like(h), np.zeros((ROWS, WIDTH))
    for t in reversed(range(STEPS)):
        delta[:, t] = SLOPE[activation](h[:, t]) * (upstream[:, t].numpy() + later)
        later = delta[:, t] @ W
    bias = delta.sum(axis=(0, 1))
    d_U, d_W = np.einsum("rtd,rti->di", delta, X.numpy()), np.einsum("rtd,rte->de", delta, before)
    for ours, expected in zip(given, (delta @ U, later, d_U, d_W, bias, bias), strict=True):
        assert ours.numpy() == pytest.approx(expected, abs=1e-12)


@over_kernels
@over_cells
def test_a_layer_starts_from_zero(name: CellName, activation: Activation, kernel: Kernel) -> None:
    layer = _layer(name, activation, kernel)
    zeros = tuple(torch.zeros_like(part) for part in _start(name))
    assert_close(layer(X), layer(X, zeros), rtol=0.0, atol=0.0)


@over_kernels
@over_cells
def test_a_layer_can_be_taken_up_anywhere(name: CellName, activation: Activation, kernel: Kernel) -> None:
    layer, state = _layer(name, activation, kernel), _start(name)
    outputs, after = layer(X, state)
    for step in range(STEPS):
        output, state = layer(X[:, step : step + 1], state)
        assert_close(output[:, 0], outputs[:, step], rtol=0.0, atol=1e-12)
    assert_close(state, after, rtol=0.0, atol=1e-12)
