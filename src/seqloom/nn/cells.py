"""Recurrent cells: their equations, one position at a time, and layers that use torch's fused kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from seqloom.errors import SeqloomError, require_known

CellName = Literal["rnn", "lstm", "gru"]
Activation = Literal["tanh", "sigmoid", "relu", "identity"]
Kernel = Literal["fused", "steps"]
Initial = Literal["uniform", "orthogonal"]

State = tuple[Tensor, ...]  # (hidden,), or (hidden, cell) of an LSTM

PARTS: dict[CellName, int] = {"rnn": 1, "gru": 1, "lstm": 2}  # tensors in the state
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "identity": lambda x: x,
}
_FUSED: tuple[Activation, ...] = ("tanh", "relu")  # of torch's kernel
FORGET_GATE = 1  # index among the gates of an LSTM's matrices: input, forget, content, output


class CellWeights(NamedTuple):
    """U and W of all gates, stacked, and the two biases that torch stores separately (their sum is b)."""

    input: Tensor  # U, (gates x D, I)
    hidden: Tensor  # W, (gates x D, D)
    input_bias: Tensor
    hidden_bias: Tensor


def rnn_cell(x: Tensor, state: State, weights: CellWeights, activation: Activation = "tanh") -> State:
    """Return h' = σ(W h + U x + b)."""
    require_known("activation", activation, ACTIVATIONS)
    h = linear(state[0], weights.hidden, weights.hidden_bias) + linear(x, weights.input, weights.input_bias)
    return (ACTIVATIONS[activation](h),)


def lstm_cell(x: Tensor, state: State, weights: CellWeights) -> State:
    """Return h' and c' (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000).

    f = sigmoid(W_f h + U_f x + b_f)    forget gate: how much of the cell is kept
    i = sigmoid(W_i h + U_i x + b_i)    input gate: how much is written
    o = sigmoid(W_o h + U_o x + b_o)    output gate: how much is read
    n = tanh(W_c h + U_c x + b_c)       new content
    c' = f c + i n,  h' = o tanh(c')
    """
    h, c = state
    i, f, n, o = _lstm_gates(x, h, weights)
    c = f.sigmoid() * c + i.sigmoid() * n.tanh()
    return o.sigmoid() * c.tanh(), c


def _lstm_gates(x: Tensor, h: Tensor, weights: CellWeights) -> tuple[Tensor, ...]:
    """Return input gate, forget gate, content and output gate before their activations."""
    gates = linear(h, weights.hidden, weights.hidden_bias) + linear(x, weights.input, weights.input_bias)
    return gates.chunk(4, dim=-1)


def gru_cell(x: Tensor, state: State, weights: CellWeights) -> State:
    """Return h' = (1 - z) n + z h (Cho et al. 2014); as in cuDNN, the reset gate is applied after the matrix.

    r = sigmoid(W_r h + U_r x + b_r)    reset gate: how much of the past the new content sees
    z = sigmoid(W_z h + U_z x + b_z)    update gate: how much of the past is kept
    n = tanh(U_n x + b + r (W_n h + b'))
    """
    (h,) = state
    _, z, n = _gru_gates(x, h, weights)
    return ((1 - z) * n + z * h,)


def _gru_gates(x: Tensor, h: Tensor, weights: CellWeights) -> tuple[Tensor, Tensor, Tensor]:
    """Return reset gate, update gate and content."""
    r_x, z_x, n_x = linear(x, weights.input, weights.input_bias).chunk(3, dim=-1)
    r_h, z_h, n_h = linear(h, weights.hidden, weights.hidden_bias).chunk(3, dim=-1)
    r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
    return r, z, (n_x + r * n_h).tanh()


def cell_gates(name: CellName, x: Tensor, state: State, weights: CellWeights) -> dict[str, Tensor]:
    """Return the gates, between 0 and 1, that a cell applies to one more input; a simple RNN has none."""
    if name == "lstm":
        i, f, _, o = _lstm_gates(x, state[0], weights)
        return {"forget": f.sigmoid(), "input": i.sigmoid(), "output": o.sigmoid()}
    if name == "gru":
        r, z, _ = _gru_gates(x, state[0], weights)
        return {"update": z, "reset": r}
    return {}


@dataclass(frozen=True)
class Cell:
    """Cell of a recurrent layer: its equations, initialisation and kernel.

    To change the equations, subclass it and override `step`. `name` still gives the number of gates and of
    state tensors.
    """

    name: CellName
    activation: Activation = "tanh"  # σ of the simple RNN
    init: Initial = "uniform"  # of the hidden-to-hidden matrices
    forget_bias: float = 0.0  # added to the initial bias of an LSTM's forget gate
    kernel: Kernel = "fused"

    def __post_init__(self) -> None:
        require_known("cell", self.name, PARTS)
        require_known("activation", self.activation, ACTIVATIONS)
        require_known("initialisation", self.init, get_args(Initial))
        require_known("kernel", self.kernel, get_args(Kernel))
        if self.name != "rnn" and self.activation != "tanh":
            raise SeqloomError(
                f"The activation {self.activation} is supported by the rnn cell only, not by {self.name}.",
                "leave it out",
            )

    @property
    def parts(self) -> int:
        """Number of tensors in the state."""
        return PARTS[self.name]

    @property
    def is_fused(self) -> bool:
        """Whether torch's kernel is used; it has tanh and relu, and no equations of a subclass."""
        return self.kernel == "fused" and self.activation in _FUSED and type(self).step is Cell.step

    def step(self, x: Tensor, state: State, weights: CellWeights) -> State:
        """Return the state after one more input (R, I); each state tensor is (R, D)."""
        if self.name == "lstm":
            return lstm_cell(x, state, weights)
        if self.name == "gru":
            return gru_cell(x, state, weights)
        return rnn_cell(x, state, weights, self.activation)


class RecurrentLayer(nn.Module):
    """One left-to-right layer, which returns the hidden states of all positions, (R, T, D)."""

    def __init__(self, cell: Cell, inputs: int, width: int) -> None:
        super().__init__()
        self.cell, self.width = cell, width
        kinds = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
        nonlinearity = {"nonlinearity": "relu"} if cell.activation == "relu" else {}
        self.fused: nn.RNNBase = kinds[cell.name](inputs, width, batch_first=True, **nonlinearity)
        with torch.no_grad():
            weights = self.weights()
            if cell.init == "orthogonal":
                for gate in weights.hidden.view(-1, width, width):
                    nn.init.orthogonal_(gate)
            if cell.name == "lstm":
                weights.input_bias.view(-1, width)[FORGET_GATE] += cell.forget_bias

    def weights(self) -> CellWeights:
        """Return the parameters of the layer in the form that the cells take."""
        return CellWeights(*self.fused.parameters())

    def forward(
        self, x: Tensor, state: State | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Return hidden states (R, T, D) for inputs (R, T, I), and the final state, each tensor (R, D).

        With lengths (R,), the final state is the one after the last real input of each row.
        """
        if state is None:
            state = (x.new_zeros(x.shape[0], self.width),) * self.cell.parts
        if not self.cell.is_fused:
            return self._unroll(x, state, lengths)
        before = tuple(part.unsqueeze(0).contiguous() for part in state)
        inputs: Tensor | PackedSequence = x
        if lengths is not None:
            inputs = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, after = self.fused(inputs, before if self.cell.name == "lstm" else before[0])
        if lengths is not None:
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
        return states, tuple(part[0] for part in (after if self.cell.name == "lstm" else (after,)))

    def _unroll(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        weights, states = self.weights(), []
        for number, position in enumerate(x.unbind(dim=1)):
            before, state = state, self.cell.step(position, state, weights)
            if lengths is not None:
                real = (number < lengths).unsqueeze(1)
                state = tuple(torch.where(real, *parts) for parts in zip(state, before, strict=True))
            states.append(state[0])
        return torch.stack(states, dim=1), state
