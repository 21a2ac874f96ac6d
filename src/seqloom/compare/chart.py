"""Line charts as inline SVG, whose colours follow the light or dark theme of a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 420, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 46
SHAPES = 4  # marker shapes, which distinguish series without colours


@dataclass(frozen=True)
class Dot:
    """A point of a series, with an interval if there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    title: str = ""


@dataclass(frozen=True)
class Series:
    """A line of a chart; `number` gives its colour and its marker."""

    number: int
    name: str
    dots: Sequence[Dot]
    is_level: bool = False  # draw its last value as a horizontal line to the right end


@dataclass(frozen=True)
class Axis:
    """Label, range and ticks of an axis."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]


def number_axis(label: str, values: Sequence[float], *, most: int = 6) -> Axis:
    """Return an axis from 0 with round ticks."""
    high = max([*values, 1e-9])
    step = _round_step(high / most)
    count = math.ceil(high / step - 1e-9)
    ticks = [(i * step, _tick(i * step)) for i in range(count + 1)]
    return Axis(label, 0.0, count * step, ticks)


def category_axis(label: str, names: Sequence[str]) -> Axis:
    """Return an axis with one place per name."""
    return Axis(label, -0.5, len(names) - 0.5, [(float(i), name) for i, name in enumerate(names)])


def _round_step(rough: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is at least this."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough - 1e-12)


def _tick(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"


def line_chart(series: Sequence[Series], x: Axis, y: Axis, *, title: str) -> str:
    """Return an SVG element; `title` describes it for screen readers."""
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        *_grid(x, y),
    ]
    for one in series:
        parts += _series(one, x, y)
    return "\n".join([*parts, "</svg>"])


def marker(number: int, x: float, y: float, size: float = 4.0) -> str:
    """Return the marker of a series."""
    match number % SHAPES:
        case 0:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}"/>'
        case 1:
            return f'<rect x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size:g}" height="{2 * size:g}"/>'
        case 2:
            return f'<path d="M{x:.1f} {y - size - 1:.1f}l{size + 1:g} {2 * size + 1:g}h{-2 * size - 2:g}z"/>'
    edge = size + 1
    sides = f"l{edge:g} {edge:g}l{-edge:g} {edge:g}l{-edge:g} {-edge:g}z"
    return f'<path d="M{x:.1f} {y - edge:.1f}{sides}"/>'


def _place(axis: Axis, value: float, start: float, end: float) -> float:
    return start + (value - axis.low) / ((axis.high - axis.low) or 1.0) * (end - start)


def _x(axis: Axis, value: float) -> float:
    return _place(axis, value, _LEFT, WIDTH - _RIGHT)


def _y(axis: Axis, value: float) -> float:
    return _place(axis, value, HEIGHT - _BOTTOM, _TOP)


def _grid(x: Axis, y: Axis) -> list[str]:
    bottom = HEIGHT - _BOTTOM
    parts = []
    for value, label in y.ticks:
        place = _y(y, value)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>'
        )
        parts.append(f'<text class="end" x="{_LEFT - 6}" y="{place + 4:.1f}">{escape(label)}</text>')
    for value, label in x.ticks:
        parts.append(f'<text class="mid" x="{_x(x, value):.1f}" y="{bottom + 17}">{escape(label)}</text>')
    middle, centre = (_LEFT + WIDTH - _RIGHT) / 2, (_TOP + bottom) / 2
    parts.append(f'<text class="mid label" x="{middle:g}" y="{HEIGHT - 8}">{escape(x.label)}</text>')
    turned = f"translate(11 {centre:g}) rotate(-90)"
    parts.append(f'<text class="mid label" transform="{turned}">{escape(y.label)}</text>')
    return parts


def _series(one: Series, x: Axis, y: Axis) -> list[str]:
    places = [(_x(x, dot.x), _y(y, dot.y), dot) for dot in one.dots]
    parts = [f'<g class="s{one.number}"><title>{escape(one.name)}</title>']
    for left, _, dot in places:
        if dot.low is not None and dot.high is not None:
            low, high = _y(y, dot.low), _y(y, dot.high)
            parts.append(
                f'<line class="range" x1="{left:.1f}" x2="{left:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
            )
    path = " ".join(f"{left:.1f},{top:.1f}" for left, top, _ in places)
    parts.append(f'<polyline points="{path}"/>')
    if one.is_level and places:
        left, top, _ = places[-1]
        parts.append(
            f'<line class="level" x1="{left:.1f}" x2="{WIDTH - _RIGHT}" y1="{top:.1f}" y2="{top:.1f}"/>'
        )
    for left, top, dot in places:
        parts.append(f"<g><title>{escape(dot.title)}</title>{marker(one.number, left, top)}</g>")
    return [*parts, "</g>"]
