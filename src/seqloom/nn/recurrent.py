"""Stacks of recurrent layers in which padding never changes a result."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from seqloom.errors import SeqloomError, require_known
from seqloom.nn.cells import Cell, RecurrentLayer, State
from seqloom.nn.dropout import Dropout

Direction = Literal["both", "forward"]


def reverse_sequences(x: Tensor, lengths: Tensor) -> Tensor:
    """(B, S, D) with the real part of every row backwards and its padding left in place."""
    positions = torch.arange(x.shape[1], device=x.device)
    backwards = lengths.unsqueeze(1) - 1 - positions  # (B, S), negative on padding
    index = torch.where(backwards >= 0, backwards, positions)
    return x.gather(1, index.unsqueeze(-1).expand_as(x))


def at_last_position(x: Tensor, lengths: Tensor) -> Tensor:
    """(B, D): the vector at each row's last real position."""
    return x[torch.arange(x.shape[0], device=x.device), lengths - 1]


class RecurrentEncoder(nn.Module):
    """States (B, S, D) of a stack of layers that read forwards, or half of the width each way.

    Padding stands behind the sentence: the forward half meets it last, and the backward half reads the
    sentence turned around in place, so no packing is needed and the fused kernels are used throughout.
    """

    def __init__(
        self, cell: Cell, width: int, layers: int, direction: Direction, *, residual: bool, dropout: float
    ) -> None:
        super().__init__()
        require_known("direction", direction, get_args(Direction))
        if direction == "both" and width % 2:
            raise SeqloomError(
                f"The width {width} is odd, and half of it reads each way.",
                "use an even width, or direction forward",
            )
        part = width // 2 if direction == "both" else width
        self.forwards = nn.ModuleList(RecurrentLayer(cell, width, part) for _ in range(layers))
        self.backwards = nn.ModuleList(
            RecurrentLayer(cell, width, part) for _ in range(layers if direction == "both" else 0)
        )
        self.residual = residual
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """States (B, S, D) of the top layer and each layer's last hidden state (B, layers, D)."""
        lasts = []
        for number in range(len(self.forwards)):
            below = self.dropout(x) if number > 0 else x
            states, last = self._layer(number, below, lengths)
            lasts.append(last)
            x = x + states if self.residual and number > 0 else states
        return x, torch.stack(lasts, dim=1)

    def _layer(self, number: int, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """One layer's states (B, S, D), and the last ones of both directions (B, D)."""
        ahead, _ = self.forwards[number](x)
        last = at_last_position(ahead, lengths)
        if not self.backwards:
            return ahead, last
        behind, _ = self.backwards[number](reverse_sequences(x, lengths))
        return (
            torch.cat((ahead, reverse_sequences(behind, lengths)), dim=-1),
            torch.cat((last, at_last_position(behind, lengths)), dim=-1),
        )


class RecurrentStack(nn.Module):
    """Outputs (R, T, D) of layers that read forwards, with a state that has rows first, as search wants it."""

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
        """Outputs for inputs (R, T, I), and the state after the last, each part (R, layers, D)."""
        afters: list[State] = []
        for number, layer in enumerate(self.layers):
            below = self.dropout(x) if number > 0 else x
            states, after = layer(below, tuple(part[:, number] for part in state))
            afters.append(after)
            x = x + states if self.residual and number > 0 else states
        return x, tuple(torch.stack(parts, dim=1) for parts in zip(*afters, strict=True))
