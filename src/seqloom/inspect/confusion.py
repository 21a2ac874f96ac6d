"""Picture of a confusion matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.evaluate.labels import Confusion
from seqloom.inspect.grid import GridLabels, color_bar, label_grid
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.labels import text_width
from seqloom.inspect.picture import Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ConfusionMatrix(Inspection):
    """Share of each label (row) that is predicted as each label (column); wide cells also have the count."""

    confusion: Confusion

    def to_dict(self) -> dict[str, Any]:
        """Return labels, counts and scores."""
        return self.confusion.to_dict()

    def _title(self) -> str:
        total = int(self.confusion.counts.sum())
        return f"Confusion matrix, {total:,} labels, {100 * self.confusion.accuracy:.1f} % correct"

    def _labels(self) -> GridLabels:
        return GridLabels(list(self.confusion.labels), list(self.confusion.labels))

    def _size(self) -> tuple[float, float]:
        return self._labels().page_size()

    def _draw(self, figure: Figure, style: Style) -> None:
        counts, names = self.confusion.counts, self._labels()
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        axes = figure.subplots()
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        label_grid(axes, names, style, x="predicted", y="correct")
        shown = {(row, column): f"{counts[row, column]:.0f}" for row, column in np.argwhere(counts > 0)}
        if max((text_width(number, style.text) for number in shown.values()), default=0) < names.cell(style)[0]:
            for (row, column), number in shown.items():
                color = "white" if shares[row, column] > 0.5 else "black"
                axes.text(column, row, number, ha="center", va="center", color=color)
        color_bar(figure, axes, image, "share of the row", {0: "0", 0.5: "0.5", 1: "1"})
