"""A dependency tree as a model with model.positions=syntax sees it: r(i, j) of all words, as a heat map."""

from __future__ import annotations

from pathlib import Path

import torch

from seqloom.data.syntax import parse_heads
from seqloom.data.tables import Malformed
from seqloom.errors import SeqloomError
from seqloom.inspect.picture import check_suffix, new_figure, save_figure
from seqloom.nn.syntax import tree_positions


def tree_picture(text: str, heads: str, path: Path, *, title: str = "") -> None:
    """Writes the relative structural positions of the words of a text: PNG, SVG or PDF by the suffix."""
    check_suffix(path)
    try:
        tree = parse_heads(heads, text)
    except Malformed as fault:
        raise SeqloomError(f"{heads!r} is no tree of {text!r}: {fault}.", "give one head per word") from fault
    words = text.split()
    depth, relative = (part[0].tolist() for part in tree_positions(torch.tensor([tree], dtype=torch.long)))
    most = max(1, *(abs(value) for row in relative for value in row))
    side = 0.36 * len(words)
    figure = new_figure(side, side)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(relative, cmap="RdBu", vmin=-1.5 * most, vmax=1.5 * most)
    rows = [f"{word}  {level}" for word, level in zip(words, depth, strict=True)]  # with its depth
    axes.set_yticks(range(len(words)), rows, parse_math=False)
    axes.set_xticks(range(len(words)), words, rotation=45, ha="left", rotation_mode="anchor", parse_math=False)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for i, row in enumerate(relative):
        for j, value in enumerate(row):
            axes.text(j, i, str(value), ha="center", va="center", fontsize=8)
    axes.set_title(title, loc="left", fontsize=11, pad=10, parse_math=False)
    save_figure(figure, path)
