"""A figure that notebooks display, whether or not pyplot is used there."""

from __future__ import annotations

from matplotlib.figure import Figure

from seqloom.inspect.picture import rendered


class NotebookFigure(Figure):
    """A matplotlib figure with a rich display of its own."""

    def _repr_png_(self) -> bytes:
        return rendered(self, "png")
