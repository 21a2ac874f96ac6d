"""Attention weights of one hypothesis as data, as text and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError
from seqloom.inspect.grid import GridLabels, color_bar, label_grid
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.labels import END, joined_words, labels, words_of
from seqloom.inspect.picture import Style
from seqloom.types import Hypothesis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Weights = NDArray[np.float64]

SHADES = " ░▒▓█"
MOST_TOKENS = 32  # per side of a figure; longer sides are grouped by word


@dataclass(frozen=True)
class Attention(Inspection):
    """Attention weights of one output: a row per target token, a column per source token."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Weights  # (T, S)
    text: str = ""
    score: float | None = None
    units: tuple[str, str] = ("tokens", "tokens")  # of the source and of the target
    sides: tuple[str, str] = ("source", "output")  # names of the columns and of the rows

    @classmethod
    def of(cls, hypothesis: Hypothesis) -> Attention:
        """Return the attention of a hypothesis that was translated with `alignment=True`."""
        attention = checked_attention(hypothesis.source_tokens, hypothesis.tokens, hypothesis.alignment)
        return replace(attention, text=hypothesis.text, score=hypothesis.score)

    def to_dict(self) -> dict[str, Any]:
        """Return text, score, tokens of both sides, and a row of weights per target token."""
        return {
            "text": self.text,
            "score": self.score,
            "source": list(self.source),
            "target": list(self.target),
            "weights": self.weights.round(6).tolist(),
        }

    def shown(self) -> Attention:
        """Return a version that fits in a figure: long sides are grouped by word.

        Weights are summed over the tokens of a source word and averaged over those of a target word.
        """
        source = joined_words(self.source) if len(self.source) > MOST_TOKENS else None
        target = joined_words(self.target) if len(self.target) > MOST_TOKENS else None
        grid = self.weights
        if source:
            grid = _summed(grid.T, words_of(self.source)).T
        if target:
            rows = words_of(self.target)
            grid = _summed(grid, rows) / np.bincount(rows)[:, None]
        return replace(
            self,
            source=tuple(source or self.source),
            target=tuple(target or self.target),
            weights=grid,
            units=("words" if source else "tokens", "words" if target else "tokens"),
        )

    def names(self) -> GridLabels:
        """Return the labels of the grid."""
        return GridLabels(labels(self.source), labels(self.target))

    def _title(self) -> str:
        columns, rows = self.sides
        return f"Attention of each {rows} token to the {columns}"

    def _size(self) -> tuple[float, float]:
        return self.shown().names().page_size()

    def _draw(self, figure: Figure, style: Style) -> None:
        shown = self.shown()
        axes = figure.subplots()
        top = float(shown.weights.max()) or 1.0
        image = axes.imshow(shown.weights, cmap="Blues", vmin=0, vmax=top, aspect="auto")
        color_bar(figure, axes, image, "attention weight", {0: "0", top: f"{top:.2g}"})
        x, y = (f"{side} {unit}" for side, unit in zip(shown.sides, shown.units, strict=True))
        label_grid(axes, shown.names(), style, x=x, y=y)


def _summed(grid: Weights, groups: Sequence[int]) -> Weights:
    """Return the sum of the rows of each group."""
    found = np.zeros((groups[-1] + 1, grid.shape[1]))
    np.add.at(found, np.asarray(groups), grid)
    return found


def attention_data(hypothesis: Hypothesis) -> dict[str, Any]:
    """Return the attention of a hypothesis as plain data."""
    return Attention.of(hypothesis).to_dict()


def attention_text(
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    weights: Sequence[Sequence[float]],
    *,
    width: int = 100,
) -> str:
    """Return a heat map in Unicode shades: target tokens down, source tokens across (vertical if too wide)."""
    from rich.cells import cell_len

    attention = checked_attention(source_tokens, target_tokens, weights)
    grid = attention.weights
    columns, rows = attention.names()
    margin = max(map(cell_len, rows))
    cells = [max(2, cell_len(label)) for label in columns]
    if margin + sum(cells) + len(cells) <= width:
        head = [[_fit(label, cell) for label, cell in zip(columns, cells, strict=True)]]
    else:
        cells = [2] * len(columns)
        height = max(map(len, columns))
        upright = [label.rjust(height) for label in columns]
        head = [[_fit(label[line], 2) for label in upright] for line in range(height)]
    step = len(SHADES) / (grid.max() or 1.0)
    levels = np.minimum((grid * step).astype(int), len(SHADES) - 1)
    lines = [" ".join([" " * margin, *part]) for part in head]
    for label, row in zip(rows, levels, strict=True):
        shaded = [SHADES[level] * cell for level, cell in zip(row, cells, strict=True)]
        lines.append(" ".join([_fit(label, margin), *shaded]))
    return "\n".join(line.rstrip() for line in lines)


def attention_picture(
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    weights: Sequence[Sequence[float]],
    path: str | Path | None = None,
    *,
    title: str = "",
    style: str = "page",
) -> Attention:
    """Return a heat map, target tokens down and source tokens across; with `path`, also write it to a file."""
    attention = checked_attention(source_tokens, target_tokens, weights)
    if path is not None:
        attention.save(path, title=title, style=style)
    return attention


def _fit(label: str, width: int) -> str:
    from rich.cells import set_cell_size

    return set_cell_size(label, width)


def checked_attention(
    source: Sequence[str], target: Sequence[str], weights: Sequence[Sequence[float]]
) -> Attention:
    """Return the attention after checking shapes; one extra row or column is the end of sentence."""
    if not len(weights) or not len(weights[0]):
        raise SeqloomError("There is no attention to show.", "use a model with attention and a non-empty line")
    if len({len(row) for row in weights}) > 1:
        raise SeqloomError(
            "The rows of the attention weights differ in length.", "give one weight per source token"
        )
    grid = np.asarray(weights, dtype=np.float64)
    rows, columns = grid.shape
    source = [*source, END] if columns == len(source) + 1 else list(source)
    target = [*target, END] if rows == len(target) + 1 else list(target)
    if grid.shape != (len(target), len(source)):
        raise SeqloomError(
            f"The attention weights are {rows} x {columns}, "
            f"but there are {len(target)} target and {len(source)} source tokens.",
            "give one row per target token and one column per source token",
        )
    return Attention(tuple(source), tuple(target), grid)
