"""Heat map of the relative positions r(i, j) in a dependency tree, as used by model.positions=syntax."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from seqloom.data.records import Malformed
from seqloom.data.syntax import parse_heads
from seqloom.errors import SeqloomError
from seqloom.inspect.grid import GridLabels, color_bar, label_grid
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.labels import readable, shortened
from seqloom.inspect.picture import Style
from seqloom.nn.syntax import tree_positions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TreePositionGrid(Inspection):
    """Words of a text with their depths and relative positions in its dependency tree."""

    words: tuple[str, ...]
    depths: tuple[int, ...]
    relative: tuple[tuple[int, ...], ...]  # r(i, j)

    def to_dict(self) -> dict[str, Any]:
        """Return words, depths and relative positions."""
        return {"words": self.words, "depths": self.depths, "relative": self.relative}

    def _title(self) -> str:
        return "Relative positions in a dependency tree"

    def _names(self) -> GridLabels:
        words = [shortened(readable(word)) for word in self.words]
        return GridLabels(words, [f"{word}  {depth}" for word, depth in zip(words, self.depths, strict=True)])

    def _size(self) -> tuple[float, float]:
        return self._names().page_size()

    def _draw(self, figure: Figure, style: Style) -> None:
        names = self._names()
        axes = figure.subplots()
        most = max(1, *(abs(value) for row in self.relative for value in row))
        image = axes.imshow(self.relative, cmap="RdBu", vmin=-1.5 * most, vmax=1.5 * most, aspect="auto")
        label_grid(axes, names, style, x="word j", y="word i and its depth")
        if min(names.cell(style)) >= style.line:
            for i, row in enumerate(self.relative):
                for j, value in enumerate(row):
                    axes.text(j, i, str(value), ha="center", va="center")
        else:
            color_bar(figure, axes, image, "r(i, j)", {-most: str(-most), 0: "0", most: str(most)})


def syntax_positions(text: str, heads: str) -> TreePositionGrid:
    """Return the positions of words in a dependency tree, given as one head per word."""
    try:
        tree = parse_heads(heads, text)
    except Malformed as fault:
        raise SeqloomError(
            f"{heads!r} is not a tree of {text!r}: {fault}.", "give one head per word"
        ) from fault
    depth, relative = (part[0].tolist() for part in tree_positions(torch.tensor([tree], dtype=torch.long)))
    return TreePositionGrid(tuple(text.split()), tuple(depth), tuple(map(tuple, relative)))


def tree_picture(text: str, heads: str, path: str | Path, *, title: str = "", style: str = "page") -> None:
    """Write a figure of the positions of words in a dependency tree; the suffix selects the format."""
    syntax_positions(text, heads).save(path, title=title, style=style)
