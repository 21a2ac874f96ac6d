"""What every figure must be like: no raw TeX, named axes, readable text, and all of it on the canvas."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from seqloom.inspect.picture import STYLES

TEX = re.compile(r"\\[A-Za-z]+|\^\{|_\{")  # in a text that is not drawn as a formula
MARKUP = re.compile(r"</?s>|&\w+;|&#\d+;")  # symbols of tokenizers and entities of HTML
TOLERANCE = 1.0  # pixels


def check_drawing(draw: Callable[[str], Figure], style: str) -> None:
    """Draw a figure without faults and without warnings; a slide is 16:9."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw(style)
        assert figure_faults(figure, smallest=STYLES[style].text) == []
    if style == "slide":
        width, height = figure.get_size_inches()
        assert abs(width / height - 16 / 9) < 0.001


def figure_faults(figure: Figure, *, smallest: float = 10.0) -> list[str]:
    """Return what is wrong with a figure, one message per fault; text has at least `smallest` points."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return [
        *(fault for text in _shown_texts(figure) for fault in _text_faults(text, canvas, smallest)),
        *(fault for axes in figure.axes for fault in _axes_faults(axes, figure)),
    ]


def drawn_text(text: Text) -> tuple[str, bool]:
    """Return what the renderer gets, and whether it takes it as a formula."""
    shown, is_math = text._preprocess_math(text.get_text())
    return shown, bool(is_math)


def _shown_texts(figure: Figure) -> Iterator[Text]:
    """Yield the texts that are drawn: an axis keeps more tick labels than it shows."""
    axes = [one for one in figure.axes if one.get_visible() and one.axison]
    drawn = {id(text) for one in axes for axis in _axes_of(one) for text in _tick_texts(axis)}
    drawn |= {id(axis.label) for one in axes for axis in _axes_of(one)}
    ticks = {
        id(text)
        for one in figure.axes
        for axis in _axes_of(one, all_=True)
        for text in (axis.label, *(t for tick in _ticks(axis) for t in (tick.label1, tick.label2)))
    }
    for text in figure.findobj(Text):
        is_drawn = id(text) in drawn or id(text) not in ticks
        if is_drawn and text.get_visible() and text.get_text().strip():
            yield text


def _axes_of(axes: Axes, *, all_: bool = False) -> list[Axis]:
    return [axis for axis in (axes.xaxis, axes.yaxis) if all_ or axis.get_visible()]


def _ticks(axis: Any) -> list[Any]:
    return [*axis.majorTicks, *axis.minorTicks]


def _tick_texts(axis: Any) -> list[Text]:
    """Return the tick labels that are drawn."""
    labels = [label for tick in axis._update_ticks() for label in (tick.label1, tick.label2)]
    return [label for label in labels if label.get_visible() and label.get_text().strip()]


def _text_faults(text: Text, canvas: FigureCanvasAgg, smallest: float) -> Iterator[str]:
    shown, is_math = drawn_text(text)
    name = repr(shown if len(shown) < 60 else shown[:60] + "…")
    if not is_math and TEX.search(shown):
        yield f"raw TeX: {name}"
    if MARKUP.search(shown):
        yield f"markup: {name}"
    if text.get_fontsize() < smallest - 1e-6:
        yield f"{text.get_fontsize():g} pt is too small: {name}"
    box, (width, height) = text.get_window_extent(canvas.get_renderer()), canvas.get_width_height()
    if box.x0 < -TOLERANCE or box.y0 < -TOLERANCE or box.x1 > width + TOLERANCE or box.y1 > height + TOLERANCE:
        corners = ", ".join(f"{value:.0f}" for value in box.extents)
        yield f"outside the canvas of {width} x {height}: {name} at {corners}"


def _axes_faults(axes: Axes, figure: Figure) -> Iterator[str]:
    if not axes.get_visible() or not axes.axison:
        return
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for axis, common in ((axes.xaxis, figure.get_supxlabel()), (axes.yaxis, figure.get_supylabel())):
        ticks = _tick_texts(axis) if axis.get_visible() else []
        if ticks and not (axis.get_label_text().strip() or common):
            yield f"no label on the {axis.axis_name} axis with {ticks[0].get_text()!r}"
        for first, second in pairwise(ticks):
            if _overlap(first, second, renderer):
                yield f"overlapping tick labels: {first.get_text()!r} and {second.get_text()!r}"


def _overlap(first: Text, second: Text, renderer: Any) -> bool:
    """Return whether two texts with the same rotation overlap or touch: their boxes, turned back, do."""
    boxes = [_turned_back(text, renderer) for text in (first, second)]
    (left, low, right, high), (other_left, other_low, other_right, other_high) = boxes
    across = min(right, other_right) - max(left, other_left)
    upward = min(high, other_high) - max(low, other_low)
    touches = across > -0.2 * (high - low)  # words in a line need a gap between them
    return touches and upward > 0.1 * (high - low) + TOLERANCE


def _turned_back(text: Text, renderer: Any) -> tuple[float, float, float, float]:
    """Return the box of a text in axes that are rotated with it."""
    angle = math.radians(text.get_rotation())
    box = text.get_window_extent(renderer)
    x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    turned_x, turned_y = x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)
    rotation = text.get_rotation()
    text.set_rotation(0)
    flat = text.get_window_extent(renderer)
    text.set_rotation(rotation)
    return (
        turned_x - flat.width / 2,
        turned_y - flat.height / 2,
        turned_x + flat.width / 2,
        turned_y + flat.height / 2,
    )
