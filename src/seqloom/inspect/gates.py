"""Gates and states of LSTM and GRU layers over time for one text, as data and as a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.inspect.attention import Weights
from seqloom.inspect.forced_text import forced_text
from seqloom.inspect.grid import place_ticks
from seqloom.inspect.heads import Target
from seqloom.inspect.inspection import WITH_PAGE, Inspection
from seqloom.inspect.labels import labels
from seqloom.inspect.picture import PAGE, Style
from seqloom.nn.cells import Cell, RecurrentLayer, State, cell_gates
from seqloom.run.load import LoadedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1  # of the document
_PANEL = 1.2  # inches, height of the map of one gate


@dataclass(frozen=True)
class LayerGates:
    """Gates and state of one layer: a row per position, a column per unit."""

    name: str  # e.g. encoder 1 backward
    cell: str  # lstm or gru
    tokens: tuple[str, ...]  # in the order of the text, also for a layer that reads it backwards
    gates: dict[str, Weights]  # (T, D) each, between 0 and 1
    state: Weights  # (T, D): the cell of an LSTM, the hidden state of a GRU

    @property
    def maps(self) -> dict[str, Weights]:
        """The gates and, last, the state, by name."""
        return {**self.gates, "cell" if self.cell == "lstm" else "state": self.state}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        maps = {name: values.round(5).tolist() for name, values in self.maps.items()}
        return {"name": self.name, "cell": self.cell, "tokens": self.tokens, "units": maps}


@dataclass(frozen=True)
class GateTrace(Inspection):
    """Gates and states of all recurrent layers for one text."""

    formats = WITH_PAGE

    layers: tuple[LayerGates, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return gates and state of each layer, by position and unit."""
        return {"view": "gates", "version": VERSION, "layers": [layer.to_dict() for layer in self.layers]}

    def _title(self) -> str:
        return "Gates and state of every unit over time: units down, tokens across"

    def _widths(self) -> list[float]:
        """Return the widths of the columns on a page, in inches."""
        return [max(2.2, min(6.0, 1.1 * PAGE.line * len(layer.tokens))) for layer in self.layers]

    def _size(self) -> tuple[float, float]:
        rows = max(len(layer.maps) for layer in self.layers)
        return sum(self._widths()) + 0.3 * len(self.layers) + 2.0, rows * (_PANEL + 0.35) + 2.2

    def _draw(self, figure: Figure, style: Style) -> None:
        widths = self._widths()
        if style.size:
            widths = [width * (style.size[0] - 3.5) / sum(widths) for width in widths]
        rows = max(len(layer.maps) for layer in self.layers)
        grid = figure.subplots(rows, len(widths), squeeze=False, width_ratios=widths)
        for column, (layer, width) in enumerate(zip(self.layers, widths, strict=True)):
            top = max(float(np.abs(layer.state).max()), 1e-6)
            for axes, (name, values) in zip(grid[:, column], layer.maps.items(), strict=False):
                is_gate = name in layer.gates
                low, high, shades = (0.0, 1.0, "Blues") if is_gate else (-top, top, "RdBu")
                image = axes.imshow(values.T, cmap=shades, vmin=low, vmax=high, aspect="auto")
                axes.set(xticks=[], yticks=[])
                axes.set_ylabel(name)
                if column == len(widths) - 1 or not is_gate:
                    label = "gate value" if is_gate else f"{name} value"
                    bar = figure.colorbar(image, ax=axes, label=label, fraction=0.3 / width, pad=0.02)
                    bar.set_ticks([low, high], labels=[f"{low:.2g}", f"{high:.2g}"])
                    bar.outline.set_visible(False)
            grid[0, column].set_title(layer.name)
            last = grid[len(layer.maps) - 1, column]
            cell = 0.7 * width / len(layer.tokens)
            last.set_xlabel("tokens" + place_ticks(last.xaxis, labels(layer.tokens), cell, style.line))
            last.tick_params(axis="x", rotation=90, length=0)


@torch.inference_mode()
def gate_trace(opened: LoadedRun, text: str, target: Target = None) -> GateTrace:
    """Return the gates of all LSTM and GRU layers for a text and a target (default: the model's output)."""
    layers = _recurrent_layers(opened)
    if not all(map(_is_gated, layers.values())):
        raise _no_gates(opened, "whose cells have none")
    if not layers:
        raise _no_gates(opened, "which has no recurrent layers")
    forced = forced_text(opened, text, target)
    recorders = {name: _Recorder(layer) for name, layer in layers.items()}
    try:
        forced.run()
    finally:
        for recorder in recorders.values():
            recorder.hook.remove()
    found = []
    for path, recorder in recorders.items():
        maps = recorder.maps(backwards="backwards" in path)
        state = maps.pop("state")
        side = forced.source if path.startswith("encoder") else forced.tokens(len(state))
        found.append(LayerGates(_name(path), recorder.cell, side, maps, state))
    return GateTrace(tuple(found))


def has_gates(opened: LoadedRun) -> bool:
    """Return whether the model has recurrent layers, all with gates."""
    layers = _recurrent_layers(opened)
    return bool(layers) and all(map(_is_gated, layers.values()))


def _recurrent_layers(opened: LoadedRun) -> dict[str, RecurrentLayer]:
    modules = opened.model.named_modules() if isinstance(opened.model, nn.Module) else ()
    return {name: layer for name, layer in modules if isinstance(layer, RecurrentLayer)}


def _is_gated(layer: RecurrentLayer) -> bool:
    return layer.cell.name != "rnn" and type(layer.cell).step is Cell.step


class _Recorder:
    """Hook that computes the gates of a layer again, position by position, from its inputs."""

    def __init__(self, layer: RecurrentLayer) -> None:
        self.cell = layer.cell.name
        self._positions: list[dict[str, Tensor]] = []
        self.hook = layer.register_forward_pre_hook(self._keep)

    def _keep(self, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(layer, RecurrentLayer)
        x: Tensor = inputs[0]
        given: State | None = inputs[1] if len(inputs) > 1 else None
        state = given or (x.new_zeros(x.shape[0], layer.width),) * layer.cell.parts
        weights = layer.weights()
        for position in x.unbind(dim=1):
            gates = cell_gates(layer.cell.name, position, state, weights)
            state = layer.cell.step(position, state, weights)
            self._positions.append({**gates, "state": state[-1]})

    def maps(self, *, backwards: bool) -> dict[str, Weights]:
        """Return gates and state, (T, D) each."""
        rows = self._positions[::-1] if backwards else self._positions
        return {
            name: torch.cat([row[name] for row in rows]).double().cpu().numpy() for name in self._positions[0]
        }


def _name(path: str) -> str:
    """Return a readable name: encoder.backwards.0 is encoder 1 backward."""
    side, *_, number = path.split(".")
    direction = " backward" if "backwards" in path else " forward" if "forwards" in path else ""
    return f"{side} {int(number) + 1}{direction}"


def _no_gates(opened: LoadedRun, reason: str) -> SeqloomError:
    return SeqloomError(
        f"There are no gates to show in the model {opened.config.model.name}, {reason}.",
        "use a model with LSTM or GRU cells, e.g. lstm-bilinear",
    )
