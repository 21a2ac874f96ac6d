"""How much every token of a text surprises a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from seqloom.inspect.picture import check_suffix, new_figure, save_figure

_END = "⏎"
_MOST_TOKENS = 60  # bars that a row has room for


def surprisal_picture(
    texts: Sequence[tuple[Sequence[str], Sequence[float]]], path: Path, *, title: str = ""
) -> None:
    """Writes a row of bars for each text, given its tokens and their log-probabilities: -log₂ p in bits."""
    check_suffix(path)
    bits = [[-value / math.log(2) for value in log_probs[:_MOST_TOKENS]] for _, log_probs in texts]
    most = max((max(row) for row in bits if row), default=1.0)
    widest = max(map(len, bits), default=1)
    figure = new_figure(max(4.0, 0.42 * widest + 1), 1.9 * max(1, len(texts)))
    panels = figure.subplots(max(1, len(texts)), 1, squeeze=False)[:, 0]
    for panel, (tokens, _), row in zip(panels, texts, bits, strict=False):
        shades = [(0.2 + 0.75 * value / most, 0.35, 0.75 - 0.55 * value / most) for value in row]
        panel.bar(range(len(row)), row, color=shades)
        names = [token.removeprefix("▁") or token for token in (*tokens, _END)]
        panel.set_xticks(range(len(row)), names[: len(row)], rotation=40, ha="right", fontsize=8)
        panel.set_xlim(-0.6, widest - 0.4)
        panel.set_ylim(0, 1.05 * most)
        panel.set_ylabel("bits")
        panel.spines[["top", "right"]].set_visible(False)
    if title:
        figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    save_figure(figure, path, tight=True)
