"""Where every layer and head of a decoder looked while an answer was written: data, and a picture of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.batching import collate_ids
from seqloom.decode.scoring import forced_attention
from seqloom.decode.search import beam_search
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.inspect.attention import END, Weights, labels
from seqloom.inspect.picture import check_suffix, new_figure, save_figure
from seqloom.inspect.searchtree import question
from seqloom.types import Head, Heads

_FOCUS = 0.05  # of a head that looks everywhere alike; its map is drawn to this at the darkest


@dataclass(frozen=True)
class HeadAttention:
    """The attention of one answer, given or found."""

    source: tuple[str, ...]  # tokens, the end last where there is one
    target: tuple[str, ...]  # the end last
    weights: Weights  # (L, H, T, S)

    def of(self, head: Head | None = None) -> Weights:
        """(T, S): of one head, or the mean of all."""
        if head is None:
            mean: Weights = self.weights.mean(axis=(0, 1))
            return mean
        layers, heads = self.weights.shape[:2]
        if not (0 <= head.layer < layers and 0 <= head.head < heads):
            raise SeqloomError(
                f"There is no head {head.head + 1} in layer {head.layer + 1}: the model has {layers} layers of "
                f"{heads} heads that look at the source.",
                "layers and heads are counted from 1",
            )
        one: Weights = self.weights[head.layer, head.head]
        return one

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `weights` by layer, head and target token."""
        return {"source": self.source, "target": self.target, "weights": self.weights.round(5).tolist()}


def head_attention(
    translator: TorchTranslator, line: str, target: str | None = None, *, heads: Heads | None = None
) -> HeadAttention | None:
    """Where the model looks when it writes the target, or if none is given its own answer.

    None if it never looks back at the source, or if there is no source.
    """
    tokenizers = translator.tokenizers
    if not line.strip():
        return None
    asked = question(translator, line, translator.search, heads=heads)
    if target is None:
        found = beam_search(asked.model, asked.sentence, asked.plan, max_lengths=[asked.longest])
        wanted = found[0][0].tokens
    else:
        wanted = tokenizers.target.encode(target)
    written = collate_ids([[]], [wanted], [0]).to(translator.device)
    looked = forced_attention(translator.model, replace(asked.sentence, target_in=written.target_in))
    if looked is None:
        return None
    pieces = tokenizers.source.pieces(tokenizers.source.encode(line))
    ends = [END] * (looked.shape[-1] - len(pieces))
    return HeadAttention(
        source=(*pieces, *ends),
        target=(*tokenizers.target.pieces(wanted), END),
        weights=looked[0].permute(1, 2, 0, 3).double().cpu().numpy(),
    )


def heads_picture(attention: HeadAttention, path: Path, *, title: str = "") -> None:
    """Writes one small map per head, a row of them per layer, target tokens down and source tokens across."""
    check_suffix(path)
    layers, heads, rows, columns = attention.weights.shape
    cell = min(0.16, 2.6 / max(rows, columns))
    figure = new_figure(heads * (cell * columns + 0.35) + 1.2, layers * (cell * rows + 0.35) + 1.0)
    grid = figure.subplots(layers, heads, squeeze=False, sharex=True, sharey=True)
    for (layer, head), axes in np.ndenumerate(grid):
        weights = attention.weights[layer, head]
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=max(weights.max(), _FOCUS), aspect="auto")
        axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=7, pad=3, color="0.3")
        axes.tick_params(length=0)
        axes.spines[:].set_color("0.8")
    size = max(3.5, cell * 42)
    _name(list(grid[-1]), labels(attention.source), across=True, size=size)
    _name(list(grid[:, 0]), labels(attention.target), across=False, size=size)
    if title:
        figure.suptitle(title, fontsize=10, x=0.01, ha="left").set_parse_math(False)
    figure.set_layout_engine("constrained")
    save_figure(figure, path)


def _name(panels: Sequence[Any], names: list[str], *, across: bool, size: float) -> None:
    for axes in panels:
        if across:
            axes.set_xticks(range(len(names)), names, fontsize=size, rotation=90)
        else:
            axes.set_yticks(range(len(names)), names, fontsize=size)
        for tick in axes.get_xticklabels() if across else axes.get_yticklabels():
            tick.set_parse_math(False)
