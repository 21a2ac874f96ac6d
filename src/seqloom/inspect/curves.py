"""How a run learned: losses, validation metrics and gradients over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.inspect.picture import check_suffix, new_figure, save_figure

_NOT_CURVES = {"kind", "step", "best", "seconds", "loss"}


def curve_picture(lines: Sequence[dict[str, Any]], path: Path, *, title: str = "") -> None:
    """Writes losses, every other validation metric and the layers' gradients against minutes of training."""
    check_suffix(path)
    train = [line for line in lines if line["kind"] == "train"]
    valid = [line for line in lines if line["kind"] == "valid"]
    if not train and not valid:
        raise SeqloomError("The run has reported nothing yet.", "wait for train.log_every steps")
    metrics = sorted({key for line in valid for key in line} - _NOT_CURVES)
    graded = [line for line in train if line.get("gradient_norms")]  # older runs have none
    count = 1 + len(metrics) + bool(graded)
    figure = new_figure(5.0 * count, 3.2)
    panels = figure.subplots(1, count, squeeze=False)[0]
    _draw(panels[0], train, "loss", "training", color="0.6")
    _draw(panels[0], valid, "loss", "validation", color="tab:blue", marker="o")
    panels[0].set_ylabel("loss per token")
    panels[0].legend(frameon=False)
    for panel, metric in zip(panels[1:], metrics, strict=False):
        _draw(panel, valid, metric, metric, color="tab:blue", marker="o")
        panel.set_ylabel(f"{metric} on validation")
    if graded:
        _draw_gradients(panels[-1], graded)
    for panel in panels:
        panel.set_xlabel("minutes")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
    if title:
        figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    save_figure(figure, path, tight=True)


def _draw(panel: Any, lines: Sequence[dict[str, Any]], key: str, label: str, **style: Any) -> None:
    heights = [_height(line.get(key)) for line in lines]
    panel.plot(_minutes(lines), heights, label=label, markersize=3, **style)


def _minutes(lines: Sequence[dict[str, Any]]) -> list[float]:
    return [(line.get("seconds") or 0.0) / 60 for line in lines]


def _height(value: float | None) -> float:
    """A number that was not finite leaves a gap in its line."""
    return math.nan if value is None else value


def _draw_gradients(panel: Any, lines: Sequence[dict[str, Any]]) -> None:
    """A line per layer; a skipped update leaves a gap in it."""
    minutes = _minutes(lines)
    layers = list(lines[-1]["gradient_norms"])
    styles = _styles(layers)
    for layer in layers:
        heights = [_height(line["gradient_norms"].get(layer)) for line in lines]
        panel.plot(minutes, heights, label=layer, linewidth=1, **styles[layer])
    panel.set_yscale("log", nonpositive="mask")  # a layer that gets no gradient at all has no place on it
    panel.set_ylabel("norm of the gradient")
    panel.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _styles(layers: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A hue for each stack of layers, darker the higher; the layers that stand alone are grey and broken."""
    from matplotlib import colormaps

    stacks: dict[str, list[str]] = {}
    for layer in layers:
        stacks.setdefault(layer.rpartition(".")[0], []).append(layer)
    hues, breaks = cycle(("Blues", "Oranges", "Greens", "Purples", "Reds")), cycle(("--", ":", "-."))
    styles = {}
    for stack, members in stacks.items():
        hue = colormaps[next(hues) if stack else "Greys"]
        for height, layer in enumerate(members, start=1):
            styles[layer] = {
                "color": hue(0.4 + 0.5 * height / len(members)),
                "linestyle": "-" if stack else next(breaks),
            }
    return styles
