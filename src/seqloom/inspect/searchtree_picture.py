"""A search tree as a picture: a column per length, the best continuation on top."""

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

_LONGEST_LABEL = 10  # characters that a box has room for
_BOX = (0.76, 0.8)  # of the 1 x 1 that a node has
_COLUMN, _ROW = 1.2, 0.5  # inches on a page
_MARGINS = 1.2  # inches, the height of the lower panel
_SLIDE_COLUMNS, _SLIDE_ROWS = 8, 12
_GAP = 0.8  # rows between two groups


class NodeStyle(NamedTuple):
    """Colours of a box, and the width of its frame."""

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
    """Where a node is drawn: its column and its row, both from 0; and how it looks."""

    node: Node
    x: float
    y: float
    label: str

    @property
    def look(self) -> NodeStyle:
        return NODE_STYLES["winner" if self.node.winner else self.node.fate]


def places(tree: SearchTree, *, steps: range | None = None, most: int | None = None) -> dict[int, Place]:
    """Return the nodes by id: in each column by rank, group below group.

    Of the pruned ones there is the best, and as many as fit into two rows per hypothesis of the beam. `steps`
    limits the lengths that are shown, `most` the nodes of a group in a column besides the output.
    """
    columns: defaultdict[tuple[int, int], list[Node]] = defaultdict(list)
    room = 2 * (tree.beam // tree.groups)
    for node in sorted(tree.nodes, key=lambda node: node.fate == "pruned"):
        if steps is not None and node.length not in steps:
            continue
        column = columns[node.group, node.length]
        if most is not None and len(column) >= most and not node.winner:
            continue
        if node.fate != "pruned" or len(column) < room or column[-1].fate != "pruned":
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
    """Two digits after the point and a real minus."""
    return f"{value:.2f}".replace("-", "−")


def lost(one: Survival) -> str:
    """The margin in words."""
    return "nothing near" if one.margin is None else number(one.margin)


def page_size(tree: SearchTree) -> tuple[float, float]:
    """Return width and height of the figure on a page, in inches."""
    columns, rows = _extent(places(tree))
    return max(6.5, columns * _COLUMN + 0.8), rows * _ROW + _MARGINS + 1.6


def draw_tree(tree: SearchTree, figure: Figure, style: Style) -> None:
    """Draw the tree and, below it, how near the output was to being pruned."""
    steps = _window(tree) if style.size else None
    placed = places(tree, steps=steps, most=_SLIDE_ROWS // tree.groups if style.size else None)
    columns, rows = _extent(placed)
    first = min((place.x for place in placed.values()), default=0)
    height = style.size[1] - 4.2 if style.size else rows * _ROW
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(height, _MARGINS))
    upper.set_xlim(first - 0.5, first + columns - 0.5)
    upper.set_ylim(rows - 0.5, -0.5)
    upper.axis("off")
    room = (style.size or page_size(tree))[0] / columns * _BOX[0] - 0.1
    with_numbers = height / rows > 2.2 * style.line
    letters = max(2, int(room / text_width("x", style.text)))
    for place in sorted(placed.values(), key=lambda place: (place.node.winner, place.node.fate != "pruned")):
        parent = placed.get(-1 if place.node.parent is None else place.node.parent)
        if parent:
            _edge(upper, parent, place)
        _box(upper, place, letters, with_number=with_numbers)
    _margins(lower, tree, range(int(first), int(first + columns)))
    boxes = "boxes: log P so far; " if with_numbers else ""
    left_out = "some are left out; " if steps and any(node.length not in steps for node in tree.nodes) else ""
    lower.set_xlabel(f"output token ({left_out}{boxes}bars: log P ahead of the first pruned hypothesis)")
    legend_below(figure, _legend(), style)


def _extent(placed: Mapping[int, Place]) -> tuple[float, float]:
    """Return how many columns and rows the places take."""
    xs, ys = [place.x for place in placed.values()] or [0], [place.y for place in placed.values()] or [0]
    return max(xs) - min(xs) + 1, max(ys) + 1


def _window(tree: SearchTree) -> range:
    """Return the lengths that a slide has room for, around the one where the output was nearly lost."""
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
    return [*boxes, Patch(fc=NEAR, label="nearest to being pruned")]


def _edge(axes: Axes, parent: Place, child: Place) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    start, end = parent.x + _BOX[0] / 2, child.x - _BOX[0] / 2
    middle = (start + end) / 2
    points = [(start, parent.y), (middle, parent.y), (middle, child.y), (end, child.y)]
    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    look, above = child.look, 2 if child.node.winner else 1
    axes.add_patch(PathPatch(Curve(points, codes), fill=False, ec=look.edge, lw=look.width, zorder=above))


def _box(axes: Axes, place: Place, letters: int, *, with_number: bool) -> None:
    """Draw a hypothesis: its last token and, if there is room, log P so far."""
    from matplotlib.patches import FancyBboxPatch

    (width, height), look = _BOX, place.look
    corner = (place.x - width / 2 + 0.05, place.y - height / 2 + 0.05)
    shape = "round,pad=0.05,rounding_size=0.08"
    size = (width - 0.1, height - 0.1)
    axes.add_patch(FancyBboxPatch(corner, *size, boxstyle=shape, fc=look.face, ec=look.edge, lw=1.1, zorder=3))
    bold = "bold" if place.node.winner else "normal"
    where: dict[str, Any] = {"ha": "center", "va": "center", "color": look.text, "zorder": 4}
    label = literal(shortened(place.label, letters))
    if place.node.parent is None or not with_number:
        axes.text(place.x, place.y, label, weight=bold, **where)
        return
    axes.text(place.x, place.y - 0.19, label, weight=bold, **where)
    axes.text(place.x, place.y + 0.21, number(place.node.total), **where)


def _margins(axes: Axes, tree: SearchTree, lengths: range) -> None:
    """Draw a bar per length: by how much log P of the output exceeded that of the first one pruned."""
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
