"""Figure that notebooks display, with or without pyplot."""

from __future__ import annotations

from matplotlib.figure import Figure

from seqloom.inspect.picture import rendered


class NotebookFigure(Figure):
    """Matplotlib figure with a PNG representation for notebooks."""

    def _repr_png_(self) -> bytes:
        return rendered(self, "png")
