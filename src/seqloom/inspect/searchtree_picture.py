"""A search tree as a picture: a column per length, the best continuation on top."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seqloom.inspect.attention import labels
from seqloom.inspect.picture import check_suffix, new_figure, save_figure
from seqloom.inspect.searchtree import Node, SearchTree, Survival

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_LABEL = 10  # characters that a box has room for
_BOX = (0.74, 0.76)  # of the 1 x 1 that a node has
_COLUMN, _ROW = 1.14, 0.44  # inches
_GAP = 0.8  # rows between two groups


class Style(NamedTuple):
    """Colours of a box, and the width of its frame."""

    face: str
    edge: str
    text: str
    width: float


STYLES = {
    "winner": Style("#1d4f8c", "#1d4f8c", "#ffffff", 2.6),
    "completed": Style("#e3f3e6", "#2e8540", "#1d5c2b", 1.4),
    "kept": Style("#ffffff", "#5b87bd", "#1c2733", 1.2),
    "start": Style("#ffffff", "#5b87bd", "#1c2733", 1.2),
    "pruned": Style("#fafafa", "#d9dde2", "#a3abb5", 0.7),
}
NEAR, FAR = "#e07b1a", "#9db8d9"  # where the answer was nearly lost, and elsewhere


class Place(NamedTuple):
    """Where a node is drawn: its column and its row, both from 0; and how it looks."""

    node: Node
    x: float
    y: float
    label: str

    @property
    def style(self) -> Style:
        return STYLES["winner" if self.node.winner else self.node.fate]


def places(tree: SearchTree) -> dict[int, Place]:
    """The nodes by id: in each column by rank, group below group.

    Of the pruned ones there is the best, and as many as fit into two rows per hypothesis of the beam.
    """
    columns: defaultdict[tuple[int, int], list[Node]] = defaultdict(list)
    room = 2 * (tree.beam // tree.groups)
    for node in sorted(tree.nodes, key=lambda node: node.fate == "pruned"):
        column = columns[node.group, node.length]
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
                placed[node.id] = Place(node, length, top + row, _short(name))
        top += max(map(len, own.values()), default=0) + _GAP
    return placed


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def number(value: float) -> str:
    """Two digits after the point and a real minus."""
    return f"{value:.2f}".replace("-", "−")


def lost(one: Survival) -> str:
    """The margin in words."""
    return "nothing near" if one.margin is None else number(one.margin)


def tree_picture(tree: SearchTree, path: Path) -> None:
    """Writes the tree and, below it, how near the answer was to being pruned: PNG, SVG or PDF by the suffix."""
    check_suffix(path)
    placed = places(tree)
    columns = 1 + max((place.x for place in placed.values()), default=0)
    rows = 1 + max((place.y for place in placed.values()), default=0)
    bars = 3.0  # the height of the lower panel, in rows
    figure = new_figure(max(5.0, columns * _COLUMN), (rows + bars + 0.6) * _ROW)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(rows, bars), gridspec_kw={"hspace": 0.08})
    upper.set_xlim(-0.5, columns - 0.5)
    upper.set_ylim(rows - 0.4, -0.6)
    upper.axis("off")
    for place in sorted(placed.values(), key=lambda place: (place.node.winner, place.node.fate != "pruned")):
        parent = placed.get(-1 if place.node.parent is None else place.node.parent)
        if parent:
            _edge(upper, parent, place)
        _box(upper, place)
    upper.set_title(f"{tree.source}\n→ {tree.answer}", loc="left", fontsize=11, parse_math=False)
    _legend(upper)
    _margins(lower, tree)
    save_figure(figure, path)


def _legend(axes: Axes) -> None:
    from matplotlib.patches import Patch

    shown = {"winner": "answer", "completed": "completed", "kept": "kept", "pruned": "pruned"}
    handles = [Patch(fc=STYLES[key].face, ec=STYLES[key].edge, label=text) for key, text in shown.items()]
    axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(handles),
        fontsize=8,
        title="log P so far in every box",
        title_fontsize=8,
        frameon=False,
    )


def _edge(axes: Axes, parent: Place, child: Place) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    start, end = parent.x + _BOX[0] / 2, child.x - _BOX[0] / 2
    middle = (start + end) / 2
    points = [(start, parent.y), (middle, parent.y), (middle, child.y), (end, child.y)]
    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    style, above = child.style, 2 if child.node.winner else 1
    axes.add_patch(PathPatch(Curve(points, codes), fill=False, ec=style.edge, lw=style.width, zorder=above))


def _box(axes: Axes, place: Place) -> None:
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
    if place.node.parent is None:
        axes.text(place.x, place.y, place.label, fontsize=8, **where)
        return
    axes.text(place.x, place.y - 0.13, place.label, fontsize=8, weight=bold, parse_math=False, **where)
    axes.text(place.x, place.y + 0.22, number(place.node.total), fontsize=6, **where)


def _margins(axes: Axes, tree: SearchTree) -> None:
    """A bar per length: what the answer could have had less in log P without being pruned."""
    nearest = tree.nearest
    for one in tree.survival:
        if one.margin is not None:
            colour = NEAR if one == nearest else FAR
            axes.bar(one.length, one.margin, width=0.5, color=colour)
        axes.annotate(
            lost(one),
            (one.length, one.margin or 0.0),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color=NEAR if one == nearest else "0.45",
        )
    axes.margins(y=0.2)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("0.8")
    axes.text(-0.4, 0, "log P from\nbeing lost", fontsize=8, color="0.3", va="bottom")
