"""Layout of token grids: cell sizes, and tick labels that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from seqloom.inspect.labels import END_LABEL, literal, text_width
from seqloom.inspect.picture import PAGE, SLIDE, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_CELL = (0.25, 0.4)  # inches, minimum and maximum on a page
_LONGEST = 24  # inches
_BAR = 1.1  # inches, for a colour bar and its label
_TITLE = 0.6  # inches


class GridLabels(NamedTuple):
    """Column and row labels of a grid."""

    columns: list[str]
    rows: list[str]

    def margins(self, style: Style) -> tuple[float, float]:
        """Return the space for labels and axis names left of the grid and above it, in inches."""
        left = max(text_width(label, style.text) for label in self.rows) + 2 * style.line
        top = max(text_width(label, style.text) for label in self.columns)
        return left, (style.line if self.upright else top * math.sin(math.pi / 4) + style.line) + style.line

    @property
    def upright(self) -> bool:
        """Whether the columns are wide enough for horizontal labels."""
        return max(map(len, self.narrow)) <= 3

    @property
    def narrow(self) -> list[str]:
        """Labels of all columns except the end, which has free space to its right."""
        return [label for label in self.columns if label != END_LABEL] or self.columns

    def page_size(self, below: float = 0) -> tuple[float, float]:
        """Return the size of a figure on a page; `below` is the space under the grid in inches."""
        left, top = self.margins(PAGE)
        width, height = self.cell(PAGE)
        grid = width * len(self.columns), height * len(self.rows)
        return max(left + grid[0] + _BAR, 4.5), max(_TITLE + top + grid[1] + below, 2.2)

    def cell(self, style: Style) -> tuple[float, float]:
        """Return the width and the height of a cell in inches."""
        if style.size is None:
            longest = max(len(self.columns), len(self.rows))
            cell = min(max(10 / longest, _CELL[0]), _CELL[1], _LONGEST / longest)
            return cell, cell
        left, top = self.margins(SLIDE)
        width, height = style.size[0] - left - 1.5 * _BAR, style.size[1] - top - 2 * _TITLE
        return width / len(self.columns), height / len(self.rows)


def label_grid(
    axes: Axes,
    names: GridLabels,
    style: Style,
    *,
    x: str,
    y: str,
    cell: tuple[float, float] | None = None,
    line: str = "white",
) -> None:
    """Label the axes, the columns on top and the rows on the left; only every n-th if there are too many.

    The cell size is in inches; by default the grid fills the figure.
    """
    width, height = cell or names.cell(style)
    wide = max(text_width(label, style.text) for label in names.narrow)
    note = place_ticks(axes.xaxis, names.columns, width, wide if names.upright else 1.2 * style.line)
    axes.set_xlabel(x + note)
    axes.set_ylabel(y + place_ticks(axes.yaxis, names.rows, height, style.line))
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.xaxis.set_label_position("top")
    if not names.upright:
        for tick in axes.get_xticklabels():
            tick.set(rotation=45, ha="left", va="bottom", rotation_mode="anchor")
    axes.set_xticks([column - 0.5 for column in range(1, len(names.columns))], minor=True)
    axes.set_yticks([row - 0.5 for row in range(1, len(names.rows))], minor=True)
    axes.grid(which="minor", color=line, linewidth=min(1.0, 4 * min(width, height)))
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set(visible=True, color="0.8")


def place_ticks(axis: Any, labels: Sequence[str], cell: float, needed: float) -> str:
    """Label the ticks 0, 1, 2 …, one per cell; `needed` is the width of a label in inches.

    Return a note for the axis label, which is empty if every tick is labelled.
    """
    step = max(1, math.ceil(needed / cell - 0.01))
    places = range(0, len(labels), step)
    axis.set_ticks(places, [literal(labels[place]) for place in places])
    return f" (1 in {step} labelled)" if step > 1 else ""


def label_bars(axes: Axes, labels: Sequence[str], width: float, style: Style) -> None:
    """Label bars or points in a row `width` inches wide: slanted if needed, every n-th if still too many."""
    cell = width / max(len(labels), 1)
    widest = max((text_width(label, style.text) for label in labels), default=0.0)
    slanted = widest + 0.08 > cell
    place_ticks(axes.xaxis, labels, cell, 1.2 * style.line if slanted else widest)
    if slanted:
        for tick in axes.get_xticklabels():
            tick.set(rotation=45, ha="right", va="top", rotation_mode="anchor")


def color_bar(figure: Figure, axes: Axes, image: AxesImage, label: str, ticks: Mapping[float, str]) -> None:
    """Add a narrow colour bar next to the axes, with labelled ticks."""
    width, height = figure.get_size_inches()
    bar = figure.colorbar(image, ax=axes, label=label, fraction=0.3 / width, aspect=height / 0.25, pad=0.02)
    bar.set_ticks(list(ticks), labels=list(ticks.values()))
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
