"""Surprisal of every token of a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.inspect.grid import label_bars
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.labels import END, joined_words, labels, words_of
from seqloom.inspect.picture import BLUE, VERMILLION, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 32  # bars per row; longer texts are grouped by word, and then truncated
_ON_A_SLIDE = 2  # texts


@dataclass(frozen=True)
class Surprisals(Inspection):
    """Texts as tokens and their log-probabilities; the last one may be that of the end."""

    texts: Sequence[tuple[Sequence[str], Sequence[float]]]

    def to_dict(self) -> dict[str, Any]:
        """Return the tokens of every text with -log₂ p in bits."""
        rows = ({"tokens": _named(*text), "bits": _bits(text[1])} for text in self.texts)
        return {"texts": list(rows)}

    def _title(self) -> str:
        return "Surprisal of every token (orange: largest)"

    def _rows(self) -> list[tuple[list[str], list[float]]]:
        return [_shown(_named(*text), _bits(text[1])) for text in self.texts]

    def _size(self) -> tuple[float, float]:
        rows = self._rows()
        widest = max((len(bits) for _, bits in rows), default=1)
        return max(5.0, 0.36 * widest + 1), 2.2 * max(1, len(rows)) + 0.4

    def _draw(self, figure: Figure, style: Style) -> None:
        rows = self._rows()[: _ON_A_SLIDE if style.size else None]
        most = max((max(bits) for _, bits in rows if bits), default=1.0)
        widest = max((len(bits) for _, bits in rows), default=1)
        panels = figure.subplots(max(1, len(rows)), 1, squeeze=False)[:, 0]
        width = (style.size or self._size())[0] - 1
        for panel, (names, bits) in zip(panels, rows, strict=False):
            top = max(bits, default=0.0)
            panel.bar(range(len(bits)), bits, color=[VERMILLION if one == top else BLUE for one in bits])
            label_bars(panel, names, width * len(names) / max(widest, 1), style)
            panel.set_xlim(-0.6, widest - 0.4)
            panel.set_ylim(0, 1.05 * most)
        for panel in panels:
            panel.set_ylabel("bits")
        note = f" (the first {len(rows)} of {len(self.texts)} texts)" if len(rows) < len(self.texts) else ""
        figure.supxlabel(f"token{note}", size="medium")


def _bits(log_probs: Sequence[float]) -> list[float]:
    return [-value / math.log(2) for value in log_probs]


def _named(tokens: Sequence[str], log_probs: Sequence[float]) -> list[str]:
    """Return one token per log-probability; an extra log-probability is that of the end."""
    return [*tokens, END][: len(log_probs)]


def _shown(tokens: list[str], bits: list[float]) -> tuple[list[str], list[float]]:
    """Return labels and heights of the bars; the surprisal of a word is the sum over its tokens."""
    words = joined_words(tokens) if len(tokens) > _MOST else None
    if words:
        tokens, bits = words, np.bincount(words_of(tokens), weights=bits).tolist()
    if len(tokens) > 2 * _MOST:
        tokens, bits = tokens[: 2 * _MOST], bits[: 2 * _MOST]
    return labels(tokens), bits
