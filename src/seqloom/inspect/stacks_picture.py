"""Search of a stack decoder as a figure: phrases over the source with their scores, and the stacks below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqloom.inspect.grid import GridLabels, label_grid, place_ticks
from seqloom.inspect.labels import readable, shortened, text_width
from seqloom.inspect.picture import BLUE, PAGE, SKY, Style
from seqloom.inspect.stacks import StackSearch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COVERED, _PRUNED = "#e6edf6", "#d0d5db"
_COLUMN, _ROW = 0.42, 0.32  # inches on a page
_SCORES = 2.8  # inches, width of the panel of scores and ranks
_COUNTS = 1.8  # inches, height of the panel of stacks
_REST = 1.6  # inches, height of the title and of the labels between and below the panels


def page_size(search: StackSearch) -> tuple[float, float]:
    """Return width and height of the figure on a page, in inches."""
    left, top = _names(search).margins(PAGE)
    columns = max(3.5, len(search.source) * _COLUMN)
    return left + columns + _SCORES + 0.8, top + len(search.steps) * _ROW + _COUNTS + _REST


def draw_stacks(search: StackSearch, figure: Figure, style: Style) -> None:
    """Draw phrases and scores above, the stacks below."""
    left, top = _names(search).margins(style)
    width, height = style.size or page_size(search)
    scores = _SCORES * (1.4 if style.size else 1)
    width, height = width - left - scores - 0.8, height - top - _COUNTS - (2.3 if style.size else _REST)
    cell = width / len(search.source), height / len(search.steps)
    grid = figure.subplots(2, 2, width_ratios=(width, scores), height_ratios=(height, _COUNTS))
    _phrases(grid[0][0], search, cell, style)
    _scores(grid[0][1], search, cell[1], style)
    _counts(grid[1][0], search, cell[0], style)
    grid[1][1].axis("off")
    grid[1][1].legend(handles=_legend(), loc="center")


def _names(search: StackSearch) -> GridLabels:
    """Return the source words, and the target phrases in their order."""
    phrases = [shortened(readable(" ".join(step.target))) for step in search.steps]
    return GridLabels([shortened(readable(word)) for word in search.source], phrases)


def _phrases(axes: Axes, search: StackSearch, cell: tuple[float, float], style: Style) -> None:
    """Draw a column per source word and a row per phrase, with the words covered by it and before it."""
    shades: list[list[float]] = []
    covered: set[int] = set()
    for step in search.steps:
        now = set(range(step.start, step.stop))
        columns = range(len(search.source))
        shades.append([2.0 if place in now else float(place in covered) for place in columns])
        covered |= now
    from matplotlib.colors import ListedColormap

    colors = ListedColormap(["white", _COVERED, BLUE])
    axes.imshow(shades, cmap=colors, vmin=0, vmax=2, aspect="auto")
    label_grid(axes, _names(search), style, x="source words", y="output phrases", cell=cell, line="0.85")


def _scores(axes: Axes, search: StackSearch, row_height: float, style: Style) -> None:
    """Draw a bar per phrase: the cost so far and the estimated cost of the rest."""
    kept = {stack.words: stack.kept for stack in search.stacks}
    ranks, covered = [], 0
    for row, step in enumerate(search.steps):
        covered += step.stop - step.start
        done = max(-step.score, 0.0)
        axes.barh(row, done, height=0.6, color=BLUE)
        axes.barh(row, max(-step.future, 0.0), left=done, height=0.6, color=SKY)
        ranks.append(f"{step.rank} of {kept[covered]}")
    axes.set_ylim(len(search.steps) - 0.5, -0.5)
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    place_ticks(axes.yaxis, ranks, row_height, style.line)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylabel("rank in its stack")
    axes.set_xlabel("cost")
    axes.locator_params(axis="x", nbins=5)


def _counts(axes: Axes, search: StackSearch, cell: float, style: Style) -> None:
    """Draw a bar per stack: kept, recombined and pruned hypotheses."""
    chosen, covered = set(), 0
    for step in search.steps:
        covered += step.stop - step.start
        chosen.add(covered)
    places, bottom = range(len(search.stacks)), [0] * len(search.stacks)
    for name, color in (("kept", BLUE), ("recombined", SKY), ("pruned", _PRUNED)):
        heights = [getattr(stack, name) for stack in search.stacks]
        axes.bar(places, heights, bottom=bottom, width=0.7, color=color)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    names = [str(stack.words) for stack in search.stacks]
    place_ticks(axes.xaxis, names, cell, max(text_width(name, style.text) for name in names) + 0.05)
    for label in axes.get_xticklabels():
        label.set_fontweight("bold" if int(label.get_text()) in chosen else "normal")
    axes.set_xlim(-0.5, len(search.stacks) - 0.5)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("hypotheses")
    axes.set_xlabel("stack: source words covered (bold: on the path of the output)")


def _legend() -> list[Any]:
    from matplotlib.patches import Patch

    return [
        Patch(fc=BLUE, label="cost so far; kept"),
        Patch(fc=SKY, label="estimated future cost;\nrecombined"),
        Patch(fc=_PRUNED, label="pruned"),
        Patch(fc=_COVERED, ec="0.85", label="covered earlier"),
    ]
