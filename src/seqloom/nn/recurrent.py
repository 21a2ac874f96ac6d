"""Stacks of recurrent layers whose outputs do not depend on padding."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from seqloom.errors import SeqloomError, require_known
from seqloom.nn.cells import Cell, RecurrentLayer, State
from seqloom.nn.dropout import Dropout

Direction = Literal["both", "forward"]


def reverse_sequences(x: Tensor, lengths: Tensor) -> Tensor:
    """Return x (B, S, D) with the real positions of every row reversed and padding left in place."""
    positions = torch.arange(x.shape[1], device=x.device)
    backwards = lengths.unsqueeze(1) - 1 - positions  # (B, S), negative on padding
    index = torch.where(backwards >= 0, backwards, positions)
    return x.gather(1, index.unsqueeze(-1).expand_as(x))


def at_last_position(x: Tensor, lengths: Tensor) -> Tensor:
    """Return the vector at the last real position of each row, (B, D)."""
    return x[torch.arange(x.shape[0], device=x.device), lengths - 1]


class RecurrentEncoder(nn.Module):
    """Stack of layers that read forward only, or in both directions with half of the width each.

    Padding is on the right: the forward half reads it last, and the backward half reads the sentence reversed
    in place, so no packing is needed and the fused kernels are used throughout. Only the last cells of an LSTM,
    which are returned on request, need packing: the kernel does not return the cells of other positions.
    """

    def __init__(
        self,
        cell: Cell,
        width: int,
        layers: int,
        direction: Direction,
        *,
        residual: bool,
        dropout: float,
        inputs: int | None = None,
        cells: bool = False,
    ) -> None:
        super().__init__()
        require_known("direction", direction, get_args(Direction))
        if direction == "both" and width % 2:
            raise SeqloomError(
                f"The width {width} is odd, but a bidirectional encoder needs an even one.",
                "use an even width, or direction forward",
            )
        layer_width = width // 2 if direction == "both" else width
        widths = [inputs or width, *[width] * (layers - 1)]
        self.forwards = nn.ModuleList(RecurrentLayer(cell, size, layer_width) for size in widths)
        self.backwards = nn.ModuleList(
            RecurrentLayer(cell, size, layer_width) for size in (widths if direction == "both" else ())
        )
        self.residual, self.cells = residual, cells and cell.parts > 1
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
        """Return the top layer's states (B, S, D) and the last state of each layer, tensors (B, layers, D).

        The last state is the hidden state, and with `cells` also the cell of an LSTM.
        """
        lasts: list[State] = []
        for number in range(len(self.forwards)):
            layer_input = self.dropout(x) if number > 0 else x
            states, last = self._layer(number, layer_input, lengths)
            lasts.append(last)
            x = x + states if self.residual and number > 0 else states
        return x, tuple(torch.stack(parts, dim=1) for parts in zip(*lasts, strict=True))

    def _layer(self, number: int, x: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
        """Return the states of one layer (B, S, D), and the last ones of both directions (B, D)."""
        forward, last = self._read(self.forwards[number], x, lengths)
        if not self.backwards:
            return forward, last
        backward, first = self._read(self.backwards[number], reverse_sequences(x, lengths), lengths)
        return (
            torch.cat((forward, reverse_sequences(backward, lengths)), dim=-1),
            tuple(torch.cat(parts, dim=-1) for parts in zip(last, first, strict=True)),
        )

    def _read(self, layer: nn.Module, x: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
        """Return the states of one direction (B, S, ·), and its last state, each tensor (B, ·)."""
        if self.cells:
            found: tuple[Tensor, State] = layer(x, lengths=lengths)
            return found
        states, _ = layer(x)
        return states, (at_last_position(states, lengths),)


class RecurrentStack(nn.Module):
    """Stack of forward layers, with a rows-first state for search."""

    def __init__(
        self, cell: Cell, inputs: int, width: int, layers: int, *, residual: bool, dropout: float
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            RecurrentLayer(cell, width if number else inputs, width) for number in range(layers)
        )
        self.residual = residual
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Return outputs (R, T, D) for inputs (R, T, I), and the final state, each tensor (R, layers, D)."""
        final_states: list[State] = []
        for number, layer in enumerate(self.layers):
            layer_input = self.dropout(x) if number > 0 else x
            states, final_state = layer(layer_input, tuple(part[:, number] for part in state))
            final_states.append(final_state)
            x = x + states if self.residual and number > 0 else states
        return x, tuple(torch.stack(parts, dim=1) for parts in zip(*final_states, strict=True))
