"""Hidden states of a recurrent encoder, kept one by one, for gradients with respect to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from seqloom.nn.cells import Cell, CellWeights, RecurrentLayer, State
from seqloom.nn.recurrent import RecurrentEncoder, reverse_sequences


@dataclass(frozen=True)
class RecordingCell(Cell):
    """Cell that keeps the hidden state of every step."""

    inner: Cell = field(default_factory=lambda: Cell("rnn"))
    kept: list[Tensor] = field(default_factory=list)

    def step(self, x: Tensor, state: State, weights: CellWeights) -> State:
        """Return the state of the inner cell after one more input."""
        after = self.inner.step(x, state, weights)
        self.kept.append(after[0])
        return after


class EncoderStates:
    """States of all layers and directions of the recurrent encoder of a model, whose cells it replaces."""

    def __init__(self, model: nn.Module) -> None:
        self._cells: list[tuple[RecordingCell, bool]] = []  # and whether it reads backwards
        for encoder in model.modules():
            if isinstance(encoder, RecurrentEncoder):
                for layers, is_backward in ((encoder.forwards, False), (encoder.backwards, True)):
                    for layer in layers:
                        self._record(layer, is_backward=is_backward)

    def _record(self, layer: nn.Module, *, is_backward: bool) -> None:
        assert isinstance(layer, RecurrentLayer)
        cell = layer.cell
        layer.cell = RecordingCell(cell.name, cell.activation, inner=cell)
        self._cells.append((layer.cell, is_backward))

    def clear(self) -> None:
        """Forget the states of the last forward pass."""
        for cell, _ in self._cells:
            cell.kept.clear()

    @property
    def tensors(self) -> list[Tensor]:
        """State of every cell and step, (B, D); for cells that read backwards from the end of the source."""
        return [state for cell, _ in self._cells for state in cell.kept]

    def by_position(self, gradients: Iterator[Tensor], lengths: Tensor) -> Tensor:
        """Return the gradients of the tensors by source position, (B, S, ·), of all layers and directions."""
        found = []
        for cell, is_backward in self._cells:
            stacked = torch.stack([next(gradients) for _ in cell.kept], dim=1)
            found.append(reverse_sequences(stacked, lengths) if is_backward else stacked)
        return torch.cat(found, dim=-1)
