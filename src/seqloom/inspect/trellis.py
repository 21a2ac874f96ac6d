"""A trellis as a picture: tokens from left to right, states from top to bottom, the best path through them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.inspect.attention import labels
from seqloom.inspect.picture import check_suffix, new_figure, save_figure
from seqloom.statistical.hmm.trellis import Trellis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 0.02  # a state that is never as probable is left out, unless the path goes there
_NUMBERED = 0.005  # a probability that rounds to at least one per cent is written
_COLUMN, _ROW = 0.95, 0.44  # inches
_PATH, _EDGE = "#e07b1a", "#5b87bd"
_RADIUS, _DOT = 0.17, 0.04  # inches


def shown_states(trellis: Trellis) -> list[int]:
    """The states that matter for the text, in order."""
    likely = (trellis.posteriors.amax(0) >= _SHOWN).nonzero().squeeze(1).tolist()
    return sorted({*likely, *trellis.path})


def trellis_picture(trellis: Trellis, path: Path) -> None:
    """Writes the trellis: PNG, SVG or PDF by the suffix. The darker a state, the more probable it is there."""
    check_suffix(path)
    rows = {state: row for row, state in enumerate(shown_states(trellis))}
    columns = len(trellis.tokens)
    figure = new_figure(max(4.0, columns * _COLUMN), (len(rows) + 1) * _ROW)
    axes = figure.subplots()
    figure.subplots_adjust(left=0, right=1, bottom=0, top=1)
    axes.set_xlim(-0.6, columns - 0.4)
    axes.set_ylim(len(rows) - 0.5, -0.6)
    for t in range(1, columns):
        _edges(axes, trellis, t, rows)
    best = [rows[state] for state in trellis.path]
    axes.plot(range(columns), best, color=_PATH, lw=3.2, zorder=2, solid_joinstyle="round")
    _circles(axes, trellis, rows)
    _names(axes, trellis, rows)
    left_out = len(trellis.states) - len(rows)
    note = f"; {left_out} states below {_SHOWN:.0%} everywhere are left out" if left_out else ""
    axes.text(
        -0.55,
        len(rows) - 0.35,
        f"orange: the best path, P = {_share(trellis.log_prob)}; numbers: P(state | text) in %{note}",
        fontsize=8,
        color="0.4",
        va="top",
    )
    save_figure(figure, path)


def _share(log_prob: float) -> str:
    value = math.exp(log_prob)
    return f"{value:.1%}" if value >= 0.001 else f"{value:.1e}"


def _edges(axes: Axes, trellis: Trellis, t: int, rows: dict[int, int]) -> None:
    """The ways from the states at t − 1 to those at t, the stronger the more probable."""
    for source, low in rows.items():
        for target, high in rows.items():
            strength = (
                float(trellis.ways[t - 1, source, target]) ** 0.5
            )  # faint ones would not be seen otherwise
            if strength > 0.05:
                axes.plot([t - 1, t], [low, high], color=_EDGE, lw=1.0, alpha=strength, zorder=1)


def _circles(axes: Axes, trellis: Trellis, rows: dict[int, int]) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    shades = colormaps["Blues"]
    for t, chances in enumerate(trellis.posteriors.tolist()):
        for state, row in rows.items():
            chance, chosen = chances[state], trellis.path[t] == state
            style: dict[str, Any] = {
                "mfc": to_hex(shades(0.9 * chance)),
                "mec": _PATH if chosen else "#c3cbd6",
                "mew": 2.0 if chosen else 0.8,
            }
            told = chosen or chance >= _NUMBERED
            axes.plot([t], [row], "o", ms=2 * 72 * (_RADIUS if told else _DOT), zorder=3, **style)
            if told:
                colour = "white" if chance > 0.5 else "0.25"
                axes.text(
                    t, row, f"{100 * chance:.0f}", fontsize=7, color=colour, ha="center", va="center", zorder=4
                )


def _names(axes: Axes, trellis: Trellis, rows: dict[int, int]) -> None:
    """Tokens above, states to the left."""
    axes.set_xticks(range(len(trellis.tokens)), labels(list(trellis.tokens)), parse_math=False)
    axes.set_yticks(list(rows.values()), [trellis.states[state] for state in rows], parse_math=False)
    axes.xaxis.tick_top()
    longest = max(map(len, trellis.tokens))
    if longest > 11:  # letters that a column has room for
        for label in axes.get_xticklabels():
            label.set(rotation=30, ha="left", rotation_mode="anchor")
    axes.tick_params(length=0, labelsize=9)
    axes.spines[:].set_visible(False)
