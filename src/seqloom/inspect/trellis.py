"""Trellis as a figure: tokens from left to right, states from top to bottom, and the best path."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seqloom.inspect.grid import place_ticks
from seqloom.inspect.inspection import WITH_PAGE, Inspection
from seqloom.inspect.labels import labels, readable, text_width
from seqloom.inspect.picture import PAGE, VERMILLION, Style
from seqloom.statistical.hmm.trellis import HasTrellis, Trellis
from seqloom.text.pair import TokenizerPair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERSION = 1  # of the document
_SHOWN = 0.02  # states that are never this probable are omitted, unless they are on the best path
_NUMBERED = 0.005  # probabilities that round to at least one per cent are printed
_COLUMN, _ROW = 0.9, 0.44  # inches on a page
_RADIUS, _DOT = 0.19, 0.04  # inches
_SLIDE_ROWS = 10
_EDGE = "#5b87bd"


@dataclass(frozen=True)
class HiddenStates(Inspection):
    """Hidden states of a text: posteriors at every token, and the best path."""

    formats = WITH_PAGE

    trellis: Trellis

    def to_dict(self) -> dict[str, Any]:
        """Return tokens, states, path and posteriors."""
        return {"view": "hmm", "version": VERSION, **self.trellis.as_dict()}

    def _title(self) -> str:
        return f"Hidden states: the best path in orange has P = {_share(self.trellis.log_prob)}"

    def _names(self) -> list[str]:
        return [readable(name) for name in self.trellis.states]

    def _size(self) -> tuple[float, float]:
        widest = max(text_width(name, PAGE.text) for name in self._names())
        rows = len(shown_states(self.trellis))
        return max(5.0, len(self.trellis.tokens) * _COLUMN + widest + 0.6), (rows + 1) * _ROW + 1.7

    def _draw(self, figure: Figure, style: Style) -> None:
        trellis, columns = self.trellis, len(self.trellis.tokens)
        states = shown_states(trellis, _SLIDE_ROWS if style.size else None)
        rows = {state: row for row, state in enumerate(states)}
        axes = figure.subplots()
        axes.set_xlim(-0.6, columns - 0.4)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        for t in range(1, columns):
            _edges(axes, trellis, t, rows)
        best = [rows[state] for state in trellis.path]
        axes.plot(
            range(columns), best, color=VERMILLION, lw=0.32 * style.text, zorder=2, solid_joinstyle="round"
        )
        width, height = _COLUMN, _ROW
        if style.size:
            width, height = (style.size[0] - 3) / columns, (style.size[1] - 2.2) / len(rows)
        _circles(axes, trellis, rows, min(width, height), style)
        self._label(axes, states, width, height, style)
        omitted = len(trellis.states) - len(rows)
        note = f"; {omitted} less probable states are omitted" if omitted else ""
        figure.supxlabel(f"numbers: P(state | text) in %{note}", size="medium")

    def _label(self, axes: Axes, states: list[int], width: float, height: float, style: Style) -> None:
        """Label tokens above and states to the left."""
        tokens, names = labels(self.trellis.tokens), self._names()
        widest = max(text_width(token, style.text) for token in tokens)
        place_ticks(axes.xaxis, tokens, width, min(widest, 1.2 * style.line))
        place_ticks(axes.yaxis, [names[state] for state in states], height, style.line)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        if widest > 0.9 * width:
            for label in axes.get_xticklabels():
                label.set(rotation=45, ha="left", va="bottom", rotation_mode="anchor")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("tokens", labelpad=style.text)
        axes.set_ylabel("hidden states")


def hidden_states(model: HasTrellis, tokenizers: TokenizerPair, text: str) -> HiddenStates:
    """Return the hidden states of a text under a model."""
    return HiddenStates(model.trellis(text, tokenizers))


def shown_states(trellis: Trellis, most: int | None = None) -> list[int]:
    """Return the states to show, in order: those of the best path, then the most probable up to a maximum."""
    peaks = trellis.posteriors.amax(0).tolist()
    likely = sorted((state for state, peak in enumerate(peaks) if peak >= _SHOWN), key=lambda one: -peaks[one])
    path = set(trellis.path)
    limit = None if most is None else max(0, most - len(path))
    return sorted(path | set([state for state in likely if state not in path][:limit]))


def _share(log_prob: float) -> str:
    value = math.exp(log_prob)
    return f"{value:.1%}" if value >= 0.001 else f"{value:.1e}"


def _edges(axes: Axes, trellis: Trellis, t: int, rows: dict[int, int]) -> None:
    """Draw the transitions from the states at t − 1 to those at t; opacity shows the probability."""
    for source, low in rows.items():
        for target, high in rows.items():
            # The square root keeps improbable transitions visible.
            strength = float(trellis.transition_posteriors[t - 1, source, target]) ** 0.5
            if strength > 0.05:
                axes.plot([t - 1, t], [low, high], color=_EDGE, lw=1.0, alpha=strength, zorder=1)


def _circles(axes: Axes, trellis: Trellis, rows: dict[int, int], cell: float, style: Style) -> None:
    """Draw a circle per state and token, darker if more probable, with its probability if there is space."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    shades = colormaps["Blues"]
    radius = min(_RADIUS * style.text / PAGE.text, 0.45 * cell)
    has_space = 2 * radius >= text_width("100", style.text)
    for t, chances in enumerate(trellis.posteriors.tolist()):
        for state, row in rows.items():
            chance, chosen = chances[state], trellis.path[t] == state
            large = chosen or chance >= _NUMBERED
            marker: dict[str, Any] = {
                "mfc": to_hex(shades(0.9 * chance)),
                "mec": VERMILLION if chosen else "#c3cbd6",
                "mew": (0.2 if chosen else 0.08) * style.text,
            }
            axes.plot([t], [row], "o", ms=2 * 72 * (radius if large else _DOT), zorder=3, **marker)
            if large and has_space:
                color = "white" if chance > 0.5 else "0.25"
                axes.text(t, row, f"{100 * chance:.0f}", color=color, ha="center", va="center", zorder=4)
