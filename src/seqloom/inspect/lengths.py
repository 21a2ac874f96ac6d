"""Length histograms of the two sides of a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seqloom.inspect.grid import label_bars
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import BLUE, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANEL = 4.2  # inches


@dataclass(frozen=True)
class LengthHistograms(Inspection):
    """Number of lines in each length range, by side of the corpus."""

    histograms: Mapping[str, Mapping[str, int]]

    def to_dict(self) -> dict[str, Any]:
        """Return the histograms."""
        return {name: dict(histogram) for name, histogram in self.histograms.items()}

    def _title(self) -> str:
        return "Line lengths"

    def _size(self) -> tuple[float, float]:
        return max(_PANEL * len(self.histograms), _PANEL), 3.2

    def _draw(self, figure: Figure, style: Style) -> None:
        count = max(1, len(self.histograms))
        panels = figure.subplots(1, count, squeeze=False, sharey=True)[0]
        width = (style.size or self._size())[0] / count - 1
        for panel, (name, histogram) in zip(panels, self.histograms.items(), strict=False):
            panel.bar(range(len(histogram)), list(histogram.values()), color=BLUE)
            label_bars(panel, list(histogram), width, style)
            panel.set_xlabel(name)
            panel.yaxis.set_major_formatter("{x:,.0f}")
        panels[0].set_ylabel("lines")
