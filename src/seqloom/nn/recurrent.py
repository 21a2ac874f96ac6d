"""Recurrent encoders in which padding never changes a result."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.nn.dropout import Dropout

LSTMState = tuple[Tensor, Tensor]  # hidden and cell, each rows first: (R, layers, D)


def reverse_sequences(x: Tensor, lengths: Tensor) -> Tensor:
    """(B, S, D) with the real part of every row backwards and its padding left in place."""
    positions = torch.arange(x.shape[1], device=x.device)
    backwards = lengths.unsqueeze(1) - 1 - positions  # (B, S), negative on padding
    index = torch.where(backwards >= 0, backwards, positions)
    return x.gather(1, index.unsqueeze(-1).expand_as(x))


def at_last_position(x: Tensor, lengths: Tensor) -> Tensor:
    """(B, D): the vector at each row's last real position."""
    return x[torch.arange(x.shape[0], device=x.device), lengths - 1]


class BidirectionalLSTM(nn.Module):
    """States (B, S, D) of a stack of LSTM layers, half of the width reading forwards, half backwards.

    Padding stands behind the sentence: the forward half meets it last, and the backward half reads the
    sentence turned around in place, so no packing is needed and the fused kernels are used throughout.
    """

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.forwards = nn.ModuleList(nn.LSTM(width, width // 2, batch_first=True) for _ in range(layers))
        self.backwards = nn.ModuleList(nn.LSTM(width, width // 2, batch_first=True) for _ in range(layers))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """States (B, S, D) of the top layer and each layer's last state (B, layers, D), both ways."""
        lasts = []
        for number, (forwards, backwards) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            if number > 0:
                x = self.dropout(x)
            ahead, _ = forwards(x)
            behind, _ = backwards(reverse_sequences(x, lengths))
            lasts.append(
                torch.cat((at_last_position(ahead, lengths), at_last_position(behind, lengths)), dim=-1)
            )
            x = torch.cat((ahead, reverse_sequences(behind, lengths)), dim=-1)
        return x, torch.stack(lasts, dim=1)


class LSTMStack(nn.Module):
    """A unidirectional stack of LSTM layers whose state has rows first, as search wants it."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(layers))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Outputs (R, T, D) and the state after the last position."""
        hidden, cell = [], []
        for number, layer in enumerate(self.layers):
            if number > 0:
                x = self.dropout(x)
            before = (part[:, number].unsqueeze(0).contiguous() for part in state)
            x, (h, c) = layer(x, tuple(before))
            hidden.append(h[0])
            cell.append(c[0])
        return x, (torch.stack(hidden, dim=1), torch.stack(cell, dim=1))
