"""Common interface of all inspection results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from seqloom.errors import SeqloomError
from seqloom.inspect.page import in_notebook, self_contained
from seqloom.inspect.picture import SUFFIXES, Style, canvas, check_suffix, rendered, save_figure, style_named
from seqloom.outputs import write_output
from seqloom.strict_json import json_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WITH_PAGE = (*SUFFIXES, ".json", ".html")  # formats of results that have a page


class Inspection(ABC):
    """A result that can be drawn, converted to plain data and saved.

    A subclass defines the size and the title of its figure, and draws it.
    """

    formats: ClassVar[tuple[str, ...]] = (*SUFFIXES, ".json")

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""

    @abstractmethod
    def _title(self) -> str:
        """Return the title of the figure."""

    @abstractmethod
    def _size(self) -> tuple[float, float]:
        """Return width and height of the figure on a page, in inches."""

    @abstractmethod
    def _draw(self, figure: Figure, style: Style) -> None:
        """Fill an empty figure."""

    def plot(self, *, style: str = "page", title: str = "") -> Figure:
        """Return a matplotlib figure, which notebooks display; `slide` is 16:9 with text of at least 16 pt."""
        chosen = style_named(style)
        width, height = self._size()
        with canvas(width, height, style=chosen, title=title or self._title()) as figure:
            self._draw(figure, chosen)
        return figure

    def to_html(self) -> str:
        """Return an interactive page that works offline, for results whose `formats` include .html."""
        if ".html" not in self.formats:
            raise SeqloomError(
                f"A {type(self).__name__} has no HTML page.", f"choose one of {', '.join(self.formats)}"
            )
        return self_contained(self.to_dict(), self._title())

    def save(self, path: str | Path, *, style: str = "page", title: str = "") -> None:
        """Write a file in the format of its suffix: .png, .svg, .pdf, .json, for some results .html."""
        path = Path(path)
        check_suffix(path, self.formats)
        match path.suffix.lower():
            case ".json":
                write_output(path, json_text(self.to_dict()) + "\n")
            case ".html":
                write_output(path, self.to_html())
            case _:
                save_figure(self.plot(style=style, title=title), path)

    def _repr_html_(self) -> str | None:
        return in_notebook(self.to_html()) if ".html" in self.formats else None

    def _repr_png_(self) -> bytes:
        return rendered(self.plot(), "png")
