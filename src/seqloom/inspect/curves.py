"""Learning curves of a run: losses, validation metrics and gradient norms over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import METRICS
from seqloom.inspect.inspection import WITH_PAGE, Inspection
from seqloom.inspect.picture import BLUE, Style, legend_below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1  # of the document
_NOT_CURVES = {"kind", "step", "best", "seconds", "loss"}
_PANEL = (4.0, 3.0)  # inches
_MAX_COLUMNS = 3
_DASHES = ("--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)))


@dataclass(frozen=True)
class LearningCurves(Inspection):
    """Losses, other validation metrics, and the gradient norm of each layer of a run."""

    formats = WITH_PAGE

    reports: Sequence[dict[str, Any]]
    name: str = ""

    def __post_init__(self) -> None:
        if not self._train and not self._valid:
            raise SeqloomError("The run has not logged anything yet.", "wait for train.log_every steps")

    def to_dict(self) -> dict[str, Any]:
        """Return the reports of training and validation as they were logged."""
        return {
            "view": "curves",
            "version": VERSION,
            "name": self.name,
            "train": self._train,
            "valid": self._valid,
        }

    @property
    def _train(self) -> list[dict[str, Any]]:
        return [line for line in self.reports if line["kind"] == "train"]

    @property
    def _valid(self) -> list[dict[str, Any]]:
        return [line for line in self.reports if line["kind"] == "valid"]

    @property
    def _metrics(self) -> list[str]:
        return sorted({key for line in self._valid for key in line} - _NOT_CURVES)

    @property
    def _gradient_reports(self) -> list[dict[str, Any]]:
        return [line for line in self._train if line.get("gradient_norms")]  # older runs have none

    @property
    def _panels(self) -> int:
        return 1 + len(self._metrics) + bool(self._gradient_reports)

    def _title(self) -> str:
        return f"Learning curves of {self.name}" if self.name else "Learning curves"

    def _grid(self) -> tuple[int, int]:
        """Return rows and columns with as few empty cells as possible."""
        rows = math.ceil(self._panels / _MAX_COLUMNS)
        return rows, math.ceil(self._panels / rows)

    def _size(self) -> tuple[float, float]:
        rows, columns = self._grid()
        return columns * _PANEL[0], rows * _PANEL[1] + 0.8

    def _draw(self, figure: Figure, style: Style) -> None:
        panels = list(figure.subplots(*self._grid(), squeeze=False).flat)
        for panel in panels[self._panels :]:
            panel.remove()
        loss, *others = panels[: self._panels]
        handles = [
            _line(loss, self._train, "loss", "training loss", color="0.55"),
            _line(loss, self._valid, "loss", "validation loss", color=BLUE, marker="o"),
        ]
        loss.set_ylabel("loss per token")
        for panel, metric in zip(others, self._metrics, strict=False):
            _line(panel, self._valid, metric, metric, color=BLUE, marker="o")
            panel.set_ylabel(f"{_metric_label(metric)} on validation")
        if self._gradient_reports:
            handles += _draw_gradients(others[-1], self._gradient_reports, style)
        for panel in (loss, *others):
            panel.set_xlabel("minutes of training")
            panel.set_xlim(left=0)
            panel.grid()
        legend_below(figure, handles, style)


def _metric_label(name: str) -> str:
    return METRICS[name]().label if name in METRICS else name


def _line(panel: Any, lines: Sequence[dict[str, Any]], key: str, label: str, **line_style: Any) -> Any:
    heights = [_height(line.get(key)) for line in lines]
    return panel.plot(_minutes(lines), heights, label=label, **line_style)[0]


def _minutes(lines: Sequence[dict[str, Any]]) -> list[float]:
    return [(line.get("seconds") or 0.0) / 60 for line in lines]


def _height(value: float | None) -> float:
    """Return the value, or NaN, which leaves a gap in the line, if it was not finite."""
    return math.nan if value is None else value


def _draw_gradients(panel: Any, lines: Sequence[dict[str, Any]], style: Style) -> list[Any]:
    """Draw a line per layer, and return one legend handle per stack of layers."""
    minutes, stacks = _minutes(lines), _stacks(list(lines[-1]["gradient_norms"]))
    styles, handles = _layer_styles(stacks), []
    for stack, layers in stacks.items():
        for layer in layers:
            heights = [_height(line["gradient_norms"].get(layer)) for line in lines]
            (line,) = panel.plot(minutes, heights, label=layer, lw=0.12 * style.text, **styles[layer])
        handles.append(line)
        if len(layers) > 1:
            line.set_label(f"{stack} layers (darker: higher)")
    panel.set_yscale("log", nonpositive="mask")  # a zero gradient cannot be shown
    panel.set_ylabel("gradient norm")
    return handles


def _stacks(layers: Sequence[str]) -> dict[str, list[str]]:
    """Group layers by stack; a layer outside a stack is a group of one."""
    stacks: dict[str, list[str]] = {}
    for layer in layers:
        stacks.setdefault(layer.rpartition(".")[0] or layer, []).append(layer)
    return stacks


def _layer_styles(stacks: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """Return a hue per stack, darker for higher layers; other layers are grey and dashed."""
    from matplotlib import colormaps

    hues, dashes = cycle(("Blues", "Oranges", "Greens", "Purples", "Reds")), cycle(_DASHES)
    styles: dict[str, dict[str, Any]] = {}
    for members in stacks.values():
        alone = "." not in members[0]
        hue = colormaps["Greys" if alone else next(hues)]
        for height, layer in enumerate(members, start=1):
            shade = 0.5 + 0.1 * (len(styles) % 4) if alone else 0.4 + 0.5 * height / len(members)
            styles[layer] = {"color": hue(shade), "linestyle": next(dashes) if alone else "-"}
    return styles
