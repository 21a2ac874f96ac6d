"""Figure of the FLOPs of every part of a model by sentence length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from seqloom.errors import SeqloomError
from seqloom.inspect.cost import predict
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import COLORS, YELLOW, Style, legend_below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORTEST, LONGEST = 16, 1024  # tokens; the figure continues to the requested length
_AREAS = (*COLORS[:-1], YELLOW, "0.6")


@dataclass(frozen=True)
class CostByLength(Inspection):
    """Predicted FLOPs per token of a forward pass, by length in tokens and by part of the model."""

    costs: Mapping[int, Mapping[str, float]]

    def to_dict(self) -> dict[str, Any]:
        """Return the FLOPs per token of every part at every length."""
        return {"forward_per_token": {str(length): dict(parts) for length, parts in self.costs.items()}}

    def _title(self) -> str:
        return "Cost of a forward pass by length"

    def _size(self) -> tuple[float, float]:
        return 7.5, 4.4

    def _draw(self, figure: Figure, style: Style) -> None:
        names = list(dict.fromkeys(name for row in self.costs.values() for name in row))
        heights = {name: [row.get(name, 0.0) / 1e6 for row in self.costs.values()] for name in names}
        shown = {name: height for name, height in heights.items() if any(height)}
        colors = [_AREAS[number % len(_AREAS)] for number in range(len(shown))]
        panel = figure.subplots()
        areas = panel.stackplot(list(self.costs), list(shown.values()), labels=list(shown), colors=colors)
        panel.set_xscale("log", base=2)
        panel.set_xticks(list(self.costs), [f"{n:,}" for n in self.costs])
        panel.set_xlabel("tokens on each side")
        panel.set_ylabel("MFLOPs per token, forward")
        panel.margins(x=0, y=0.02)
        legend_below(figure, areas[::-1], style)


def cost_by_length(model: nn.Module, *, longest: int = LONGEST) -> CostByLength:
    """Predict the cost at every power of two up to the longest length that the model takes."""
    found: dict[int, dict[str, float]] = {}
    length = SHORTEST
    while length <= max(longest, LONGEST):
        try:
            prediction = predict(model, length)
        except SeqloomError:
            if not found:
                raise
            break  # the length exceeds the maximum of the model
        found[length] = {part.name: part.cost.forward / length for part in prediction.parts}
        length *= 2
    return CostByLength(found)
