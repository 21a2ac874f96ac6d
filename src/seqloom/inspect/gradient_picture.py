"""Figure of gradient norms by distance, for one or more models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.errors import SeqloomError
from seqloom.inspect.gradients import Curve, GradientFlow
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.labels import literal
from seqloom.inspect.line_styles import line_styles
from seqloom.inspect.picture import Style, legend_below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS_BACK = "target steps back, i − j"
FROM_END = "source tokens from the end"
_ENCODER = "-."  # line of encoder states, in the panel of the source


@dataclass(frozen=True)
class GradientComparison(Inspection):
    """Gradient norms of several models."""

    flows: Sequence[GradientFlow]

    def __post_init__(self) -> None:
        if not self.flows:
            raise SeqloomError("There are no gradients to draw.", "measure at least one model")

    def to_dict(self) -> dict[str, Any]:
        """Return the curves of every model."""
        return {"models": [flow.to_dict() for flow in self.flows]}

    @property
    def _with_states(self) -> bool:
        return any("hidden" in flow.curves for flow in self.flows)

    def _title(self) -> str:
        return "Gradient flow: mean gradient norm by distance"

    def _size(self) -> tuple[float, float]:
        return (12.0 if self._with_states else 8.5), 4.0 + 0.25 * len(self.flows)

    def _draw(self, figure: Figure, style: Style) -> None:
        from matplotlib.lines import Line2D

        panels = list(figure.subplots(1, 3 if self._with_states else 2))
        colors = [style.color for style in line_styles([flow.name for flow in self.flows]).values()]
        handles = [
            Line2D([], [], color=color, label=literal(flow.name))
            for flow, color in zip(self.flows, colors, strict=True)
        ]
        if self._with_states:
            _label(panels[0], "by decoder state", "h", STEPS_BACK)
            handles += self._draw_states(panels[0], colors)
        if any("encoder" in flow.curves for flow in self.flows):
            handles.append(Line2D([], [], color="0.4", ls=_ENCODER, label="encoder state"))
        for panel, kind, symbol, distance in (
            (panels[-2], "target", "y", STEPS_BACK),
            (panels[-1], "source", "x", FROM_END),
        ):
            for flow, color in zip(self.flows, colors, strict=True):
                _line(panel, flow.curves[kind], color)
                if kind == "source" and "encoder" in flow.curves:
                    _line(panel, flow.curves["encoder"], color, _ENCODER)
            _label(panel, f"by {kind} input", symbol, distance)
        legend_below(figure, handles, style)

    def _draw_states(self, panel: Any, colors: Sequence[str]) -> list[Any]:
        """Draw hidden states solid, LSTM cells dotted, predictions dashed; return the legend handles."""
        from matplotlib.lines import Line2D

        shown: dict[str, str] = {}
        for flow, color in zip(self.flows, colors, strict=True):
            bound = f"powers of W alone, |λ| ≤ {flow.spectral_radius or 0:.2f}"
            for curve, kind, line in (
                (flow.curves.get("hidden"), "hidden state h", "-"),
                (flow.curves.get("cell"), "cell c", ":"),
                (flow.prediction, bound, "--"),
            ):
                if curve:
                    _line(panel, curve, color, line)
                    shown[kind] = line
        # An exploding prediction is cut off: otherwise the measured curves would look flat.
        measured = [f.curves[kind] for f in self.flows for kind in ("hidden", "cell") if kind in f.curves]
        panel.set_ylim(top=min(panel.get_ylim()[1], 100 * max(max(curve.norm) for curve in measured)))
        return [Line2D([], [], color="0.4", ls=line, label=kind) for kind, line in shown.items()]


def gradient_picture(
    flows: Sequence[GradientFlow], path: str | Path, *, title: str = "", style: str = "page"
) -> None:
    """Write a figure of mean norms by distance: for decoder states (if any), target and source inputs."""
    GradientComparison(flows).save(path, title=title, style=style)


def _line(panel: Any, curve: Curve, color: str, line: str = "-") -> None:
    panel.plot(range(len(curve.norm)), curve.norm, color=color, ls=line)


def _label(panel: Any, title: str, symbol: str, distance: str) -> None:
    panel.set_title(title)
    panel.set_xlabel(distance)
    panel.set_ylabel(rf"mean of $\Vert \partial J_i / \partial {symbol}_j \Vert$")
    panel.set_yscale("log", nonpositive="mask")  # a zero gradient cannot be shown
    panel.grid()
