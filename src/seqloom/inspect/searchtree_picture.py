"""Search tree as a figure: a column per length, the best continuation on top."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from seqloom.inspect.labels import labels, literal, shortened, text_width
from seqloom.inspect.picture import VERMILLION, Style, legend_below
from seqloom.inspect.searchtree import Node, SearchTree, Survival

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST_LABEL = 10  # characters in a box
_BOX = (0.76, 0.8)  # width and height, in a cell of 1 x 1
_COLUMN, _ROW = 1.2, 0.5  # inches on a page
_MARGINS = 1.2  # inches, height of the lower panel
_SLIDE_COLUMNS, _SLIDE_ROWS = 8, 12
_GAP = 0.8  # rows between two groups


class NodeStyle(NamedTuple):
    """Colours of a box, and the line width of its frame."""

    face: str
    edge: str
    text: str
    width: float


NODE_STYLES = {
    "winner": NodeStyle("#1d4f8c", "#1d4f8c", "#ffffff", 2.6),
    "completed": NodeStyle("#e3f3e6", "#2e8540", "#1d5c2b", 1.4),
    "kept": NodeStyle("#ffffff", "#5b87bd", "#1c2733", 1.2),
    "start": NodeStyle("#ffffff", "#5b87bd", "#1c2733", 1.2),
    "pruned": NodeStyle("#fafafa", "#c4cad1", "#6b7580", 0.7),
}
NEAR, FAR = VERMILLION, "#9db8d9"  # where the output was nearly pruned, and elsewhere


class Place(NamedTuple):
    """Position of a node, column and row from 0, with its label and style."""

    node: Node
    x: float
    y: float
    label: str

    @property
    def style(self) -> NodeStyle:
        return NODE_STYLES["winner" if self.node.winner else self.node.fate]


def places(tree: SearchTree, *, steps: range | None = None, most: int | None = None) -> dict[int, Place]:
    """Return the positions of the nodes by id: each column is sorted by rank, groups are below each other.

    Pruned nodes are limited to the best one, and to two rows per hypothesis of the beam. `steps` limits the
    lengths that are shown, `most` the nodes of a group per column, not counting the output.
    """
    columns: defaultdict[tuple[int, int], list[Node]] = defaultdict(list)
    max_rows = 2 * (tree.beam // tree.groups)
    for node in sorted(tree.nodes, key=lambda node: node.fate == "pruned"):
        if steps is not None and node.length not in steps:
            continue
        column = columns[node.group, node.length]
        if most is not None and len(column) >= most and not node.winner:
            continue
        if node.fate != "pruned" or len(column) < max_rows or column[-1].fate != "pruned":
            column.append(node)
    names = dict(
        zip((node.id for node in tree.nodes), labels([node.token for node in tree.nodes]), strict=True)
    )
    placed, top = {}, 0.0
    for group in range(tree.groups):
        own = {length: column for (one, length), column in columns.items() if one == group}
        for length, column in own.items():
            for row, node in enumerate(sorted(column, key=lambda node: node.rank)):
                name = names[node.id] if node.length else "start"
                placed[node.id] = Place(node, length, top + row, shortened(name, _LONGEST_LABEL))
        top += max(map(len, own.values()), default=0) + _GAP
    return placed


def number(value: float) -> str:
    """Format with two decimals and a typographic minus."""
    return f"{value:.2f}".replace("-", "−")


def margin_text(one: Survival) -> str:
    """Format the margin of a step."""
    return "none pruned" if one.margin is None else number(one.margin)


def page_size(tree: SearchTree) -> tuple[float, float]:
    """Return width and height of the figure on a page, in inches."""
    columns, rows = _extent(places(tree))
    return max(6.5, columns * _COLUMN + 0.8), rows * _ROW + _MARGINS + 1.6


def draw_tree(tree: SearchTree, figure: Figure, style: Style) -> None:
    """Draw the tree and, below it, the margins of the output."""
    steps = _window(tree) if style.size else None
    placed = places(tree, steps=steps, most=_SLIDE_ROWS // tree.groups if style.size else None)
    columns, rows = _extent(placed)
    first = min((place.x for place in placed.values()), default=0)
    height = style.size[1] - 4.2 if style.size else rows * _ROW
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(height, _MARGINS))
    upper.set_xlim(first - 0.5, first + columns - 0.5)
    upper.set_ylim(rows - 0.5, -0.5)
    upper.axis("off")
    box_width = (style.size or page_size(tree))[0] / columns * _BOX[0] - 0.1
    with_numbers = height / rows > 2.2 * style.line
    letters = max(2, int(box_width / text_width("x", style.text)))
    for place in sorted(placed.values(), key=lambda place: (place.node.winner, place.node.fate != "pruned")):
        parent = placed.get(-1 if place.node.parent is None else place.node.parent)
        if parent:
            _edge(upper, parent, place)
        _box(upper, place, letters, with_number=with_numbers)
    _margins(lower, tree, range(int(first), int(first + columns)))
    boxes = "boxes: log P so far; " if with_numbers else ""
    omitted = "some are omitted; " if steps and any(node.length not in steps for node in tree.nodes) else ""
    lower.set_xlabel(f"output token ({omitted}{boxes}bars: margin in log P over the best pruned hypothesis)")
    legend_below(figure, _legend(), style)


def _extent(placed: Mapping[int, Place]) -> tuple[float, float]:
    """Return the number of columns and rows."""
    xs, ys = [place.x for place in placed.values()] or [0], [place.y for place in placed.values()] or [0]
    return max(xs) - min(xs) + 1, max(ys) + 1


def _window(tree: SearchTree) -> range:
    """Return the lengths that fit on a slide, around the one where the output was nearly pruned."""
    longest = max((node.length for node in tree.nodes), default=0)
    middle = tree.nearest.length if tree.nearest else 0
    first = max(0, min(middle - _SLIDE_COLUMNS // 2, longest + 1 - _SLIDE_COLUMNS))
    return range(first, first + _SLIDE_COLUMNS)


def _legend() -> list[Any]:
    from matplotlib.patches import Patch

    shown = {"winner": "output", "completed": "completed", "kept": "kept", "pruned": "pruned"}
    boxes = [
        Patch(fc=NODE_STYLES[key].face, ec=NODE_STYLES[key].edge, label=text) for key, text in shown.items()
    ]
    return [*boxes, Patch(fc=NEAR, label="closest to being pruned")]


def _edge(axes: Axes, parent: Place, child: Place) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    start, end = parent.x + _BOX[0] / 2, child.x - _BOX[0] / 2
    middle = (start + end) / 2
    points = [(start, parent.y), (middle, parent.y), (middle, child.y), (end, child.y)]
    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    style, zorder = child.style, 2 if child.node.winner else 1
    axes.add_patch(PathPatch(Curve(points, codes), fill=False, ec=style.edge, lw=style.width, zorder=zorder))


def _box(axes: Axes, place: Place, letters: int, *, with_number: bool) -> None:
    """Draw a hypothesis: its last token and, if there is space, log P so far."""
    from matplotlib.patches import FancyBboxPatch

    (width, height), style = _BOX, place.style
    corner = (place.x - width / 2 + 0.05, place.y - height / 2 + 0.05)
    shape = "round,pad=0.05,rounding_size=0.08"
    size = (width - 0.1, height - 0.1)
    axes.add_patch(
        FancyBboxPatch(corner, *size, boxstyle=shape, fc=style.face, ec=style.edge, lw=1.1, zorder=3)
    )
    bold = "bold" if place.node.winner else "normal"
    where: dict[str, Any] = {"ha": "center", "va": "center", "color": style.text, "zorder": 4}
    label = literal(shortened(place.label, letters))
    if place.node.parent is None or not with_number:
        axes.text(place.x, place.y, label, weight=bold, **where)
        return
    axes.text(place.x, place.y - 0.19, label, weight=bold, **where)
    axes.text(place.x, place.y + 0.21, number(place.node.total), **where)


def _margins(axes: Axes, tree: SearchTree, lengths: range) -> None:
    """Draw a bar per length: the margin of the output in log P over the best pruned hypothesis."""
    nearest = tree.nearest
    for one in tree.survival:
        if one.length not in lengths:
            continue
        if one.margin is not None:
            axes.bar(one.length, one.margin, width=0.5, color=NEAR if one == nearest else FAR)
        above: dict[str, Any] = {"xytext": (0, 2), "textcoords": "offset points", "ha": "center"}
        shown = "–" if one.margin is None else number(one.margin)
        axes.annotate(shown, (one.length, one.margin or 0.0), color="0.3", **above)
    axes.margins(y=0.3)
    axes.set_xticks([length for length in lengths if length], [str(n) for n in lengths if n])
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0)
    axes.set_ylabel("margin")
