"""Gradients by distance as curves, of one model or of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.inspect.gradients import Curve, GradientFlow
from seqloom.inspect.picture import check_suffix, new_figure, save_figure

COLORS = ("tab:orange", "tab:blue", "tab:green", "tab:red", "tab:purple", "tab:brown", "tab:pink", "tab:gray")
STEPS_BACK = "distance i − j, in target steps"
FROM_END = "distance from the end of the source, in tokens"


def gradient_picture(flows: Sequence[GradientFlow], path: Path, *, title: str = "") -> None:
    """Writes the mean norms by distance: by decoder state (if any model has one), target and source input."""
    check_suffix(path)
    if not flows:
        raise SeqloomError("There are no gradients to draw.", "measure at least one model")
    with_states = any("hidden" in flow.curves for flow in flows)
    figure = new_figure(15.0 if with_states else 10.0, 4.2)
    panels = list(figure.subplots(1, 3 if with_states else 2))
    if with_states:
        _draw_states(panels[0], flows)
    for panel, kind, symbol, distance in (
        (panels[-2], "target", "y", STEPS_BACK),
        (panels[-1], "source", "x", FROM_END),
    ):
        for flow, color in zip(flows, cycle(COLORS), strict=False):
            _line(panel, flow.curves[kind], label=flow.name, color=color)
        _label(panel, f"{kind} input", symbol, distance)
    if title:
        figure.suptitle(title, x=0.02, ha="left", fontsize=11, parse_math=False)
    figure.set_layout_engine("constrained")
    save_figure(figure, path)


def _draw_states(panel: Any, flows: Sequence[GradientFlow]) -> None:
    """Hidden states as full lines, LSTM cells dotted, the prediction from the eigenvalues dashed."""
    for flow, color in zip(flows, cycle(COLORS), strict=False):
        if "hidden" in flow.curves:
            _line(panel, flow.curves["hidden"], label=f"{flow.name}: h", color=color)
        if "cell" in flow.curves:
            _line(panel, flow.curves["cell"], label=f"{flow.name}: c", color=color, linestyle=":")
        if flow.prediction:
            label = f"{flow.name}: W^ℓ alone, |λ| ≤ {flow.spectral_radius:.2f}"
            _line(panel, flow.prediction, label=label, color=color, linestyle="--")
    _label(panel, "decoder state", "h", STEPS_BACK)
    # A prediction that explodes may leave the frame: what was measured would be flat beside it.
    measured = [flow.curves[kind] for flow in flows for kind in ("hidden", "cell") if kind in flow.curves]
    highest = max(max(curve.norm) for curve in measured)
    panel.set_ylim(top=min(panel.get_ylim()[1], 100 * highest))


def _line(panel: Any, curve: Curve, **style: Any) -> None:
    panel.plot(range(len(curve.norm)), curve.norm, linewidth=1.6, **style)


def _label(panel: Any, what: str, symbol: str, distance: str) -> None:
    panel.set_title(f"by {what}", loc="left", fontsize=11)
    panel.set_xlabel(distance)
    panel.set_ylabel(rf"mean of $\Vert \partial J_i / \partial {symbol}_j \Vert$")
    panel.set_yscale("log", nonpositive="mask")  # no gradient at all has no place on it
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.3)
    # Below the axes: no corner is empty for all shapes of curves.
    legend = panel.legend(
        frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(-0.1, -0.16), ncols=2, columnspacing=1
    )
    for text in legend.get_texts():
        text.set_parse_math(False)  # the name of a run is no formula
