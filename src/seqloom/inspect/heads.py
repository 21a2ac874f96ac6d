"""Attention of every layer and head for one text, as data and as a figure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import beam_search
from seqloom.decode.exact import Problem
from seqloom.decode.scoring import forced_attention
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.inspect.attention import Attention, Weights
from seqloom.inspect.grid import GridLabels, place_ticks
from seqloom.inspect.inspection import WITH_PAGE, Inspection
from seqloom.inspect.labels import END
from seqloom.inspect.picture import PAGE, Style
from seqloom.inspect.searchtree import problem_of
from seqloom.types import DependencyTree, Head, Request

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AttentionKind = Literal["cross", "encoder", "decoder"]
Target = str | tuple[str, ...] | None  # a text, tokens, or the model's own output
VERSION = 1  # of the document
_SIDES: dict[str, tuple[str, str]] = {
    "cross": ("source", "output"),
    "encoder": ("source", "source"),
    "decoder": ("input", "input"),
}
_MIN_SCALE = 0.05  # upper end of the colour scale of a head whose weights are all smaller
_MARGIN = 1.6  # inches, for labels and title
_PANEL = 2.6  # inches, maximum side of the map of one head


@dataclass(frozen=True)
class HeadAttention(Inspection):
    """Attention of all heads for one text: cross-attention, or the self-attention of one side.

    Columns are keys and rows are queries. For self-attention both are the tokens of one side, unless keys are
    projected to fewer.
    """

    formats = WITH_PAGE

    source: tuple[str, ...]  # keys: tokens, including the end if there is one
    target: tuple[str, ...]  # queries: output tokens and the end, or the tokens that attend to each other
    weights: Weights  # (L, H, T, S)
    kind: AttentionKind = "cross"

    @property
    def entropy(self) -> Weights:
        """Mean entropy of the rows of each head in nats, (L, H): one-hot 0, uniform log S.

        Rows are normalised first: the weights of a language model on its source sum to less than 1.
        """
        sums = self.weights.sum(axis=-1, keepdims=True)
        shares = self.weights / np.where(sums > 0, sums, 1.0)
        logs = np.log(np.where(shares > 0, shares, 1.0))
        mean: Weights = np.maximum(0.0, -(shares * logs).sum(axis=-1)).mean(axis=-1)
        return mean

    def of(self, head: Head | None = None) -> Weights:
        """Return the weights (T, S) of one head, or the mean of all."""
        if head is None:
            mean: Weights = self.weights.mean(axis=(0, 1))
            return mean
        layers, heads = self.weights.shape[:2]
        if not (0 <= head.layer < layers and 0 <= head.head < heads):
            raise SeqloomError(
                f"There is no head {head.head + 1} in layer {head.layer + 1}: the model has {layers} layers "
                f"with {heads} heads each.",
                "count layers and heads from 1",
            )
        one: Weights = self.weights[head.layer, head.head]
        return one

    def one(self, head: Head | None = None) -> Attention:
        """Return the attention of one head, or the mean of all."""
        return Attention(self.source, self.target, self.of(head), sides=_SIDES[self.kind])

    def to_dict(self) -> dict[str, Any]:
        """Return the tokens of both sides, the weights by layer, head and target token, and the entropies."""
        return {
            "view": "attention",
            "version": VERSION,
            "kind": self.kind,
            "source": self.source,
            "target": self.target,
            "weights": self.weights.round(5).tolist(),
            "entropy": self.entropy.round(5).tolist(),
        }

    def _names(self) -> GridLabels:
        return self.one().shown().names()

    def _title(self) -> str:
        columns, rows = _SIDES[self.kind]
        return f"Attention of every layer and head, with its entropy H: {rows} down, {columns} across"

    def _panel(self) -> tuple[float, float]:
        """Return the size of the map of one head on a page, in inches."""
        names = self._names()
        cell = min(PAGE.line, _PANEL / max(len(names.columns), len(names.rows)))
        return max(cell * len(names.columns), 1.3), max(cell * len(names.rows), 0.5)

    def _size(self) -> tuple[float, float]:
        (layers, heads), (width, height) = self.weights.shape[:2], self._panel()
        return max(heads * (width + 0.1) + _MARGIN, 5.0), layers * (height + 0.1 + 1.5 * PAGE.line) + _MARGIN

    def _draw(self, figure: Figure, style: Style) -> None:
        layers, heads = self.weights.shape[:2]
        names, (width, height) = self._names(), self._panel()
        if style.size:
            width, height = (style.size[0] - 1.6 * _MARGIN) / heads, (style.size[1] - 1.6 * _MARGIN) / layers
        grid = figure.subplots(layers, heads, squeeze=False, sharex=True, sharey=True)
        for (layer, head), axes in np.ndenumerate(grid):
            weights = self.one(Head(layer, head)).shown().weights
            axes.imshow(weights, cmap="Blues", vmin=0, vmax=max(weights.max(), _MIN_SCALE), aspect="auto")
            axes.tick_params(length=0)
            axes.spines[:].set(visible=True, color="0.8")
            name = "" if layer else f"head {head + 1}\n"
            axes.set_title(f"{name}H = {self.entropy[layer, head]:.2f}", loc="center")
        for layer, axes in enumerate(grid[:, 0]):
            axes.set_ylabel(f"layer {layer + 1}")
            place_ticks(axes.yaxis, names.rows, height / len(names.rows), style.line)
        for axes in grid[-1]:
            place_ticks(axes.xaxis, names.columns, width / len(names.columns), style.line)
            axes.tick_params(axis="x", rotation=90)
        figure.supxlabel(f"{_SIDES[self.kind][0]} {self.one().shown().units[0]}", size="medium")


def head_attention(
    translator: TorchTranslator, line: str, target: Target = None, *, heads: DependencyTree | None = None
) -> HeadAttention | None:
    """Return the attention for a target, or by default for the model's own output.

    None if the model has no attention to the source, or if the source is empty.
    """
    tokenizers = translator.tokenizers
    if not line.strip():
        return None
    problem = problem_of(translator, Request(line, tree=heads), translator.search)
    tokens = target_ids(translator, problem, target)
    forced = collate_ids([[]], [tokens], [0]).to(translator.device)
    attention = forced_attention(translator.model, replace(problem.sentence, target_in=forced.target_in))
    if attention is None:
        return None
    pieces = tokenizers.source.pieces(tokenizers.source.encode(line))
    ends = [END] * (attention.shape[-1] - len(pieces))
    return HeadAttention(
        source=(*pieces, *ends),
        target=(*tokenizers.target.pieces(tokens), END),
        weights=attention[0].permute(1, 2, 0, 3).double().cpu().numpy(),
    )


def target_ids(translator: TorchTranslator, problem: Problem, target: Target) -> list[int]:
    """Return the tokens of a target, or by default of the model's own output."""
    if isinstance(target, tuple):
        return translator.tokenizers.target.ids_of(target)
    if target is not None:
        return translator.tokenizers.target.encode(target)
    found = beam_search(problem.model, problem.sentence, problem.plan, max_lengths=[problem.max_length])
    if not found[0]:
        raise SeqloomError("No output is possible for this text under these search options.", "relax search.*")
    return list(found[0][0].tokens)
