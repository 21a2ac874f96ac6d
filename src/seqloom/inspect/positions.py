"""Position encodings of a model: the vectors p_i, their products p_i·p_j and the bias of attention scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.data.records import Malformed
from seqloom.data.syntax import parse_heads
from seqloom.errors import SeqloomError
from seqloom.inspect.attention import Weights
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import Style
from seqloom.nn.multihead import SelfAttention
from seqloom.nn.positions import AttentionPositions, InputPositions, Relative, Rotary, sinusoids
from seqloom.nn.syntax import TreeInput, TreePositions, TreeRelative, tree_positions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1  # of the document
TREE = ("The writer of the books is here", "2 6 2 5 3 0 6")  # the default sentence and its heads
_HEADS = 2  # heads with a panel of their own, per side
_COLUMNS, _PANEL = 3, 3.0  # panels in a row; inches


@dataclass(frozen=True)
class PositionTables(Inspection):
    """Position encodings by place: `source` and `target` inputs, `encoder` and `decoder` attention.

    For rotary positions, the vector of a position is (1, …, 1)/√d, rotated by it. The bias of relative and tree
    positions depends on the query: it is the standard deviation of the bias over queries whose components are
    independent with variance 1.
    """

    length: int
    vectors: Mapping[str, Weights]  # p_i, (T, D)
    biases: Mapping[str, Weights]  # (H, T, T); one head if all are equal

    @property
    def products(self) -> dict[str, Weights]:
        """The products p_i·p_j, (T, T)."""
        return {name: table @ table.T for name, table in self.vectors.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return all tables."""
        return {
            "view": "positions",
            "version": VERSION,
            "length": self.length,
            "vectors": _rounded(self.vectors),
            "products": _rounded(self.products),
            "biases": _rounded(self.biases),
        }

    def _panels(self) -> list[_Panel]:
        found = []
        for name, table in self.vectors.items():
            found.append(_Panel(rf"{name}: vectors $p_i$", table, "component", "position i"))
            found.append(_Panel(rf"{name}: products $p_i \cdot p_j$", self.products[name], "j", "i"))
        for name, bias in self.biases.items():
            for head, values in enumerate(bias[:_HEADS], 1):
                of_head = f", head {head} of {len(bias)}" if len(bias) > 1 else ""
                found.append(_Panel(f"{name}: bias{of_head}", values, "key j", "query i"))
        return found

    def _title(self) -> str:
        return f"Position encoding of {self.length} positions"

    def _size(self) -> tuple[float, float]:
        rows, columns = self._shape()
        return (_PANEL + 1.0) * columns, _PANEL * rows + 0.8

    def _shape(self) -> tuple[int, int]:
        """Return the number of rows and columns of panels."""
        count = len(self._panels())
        columns = 2 if count in (2, 4) else min(count, _COLUMNS)
        return -(-count // columns), columns

    def _draw(self, figure: Figure, style: Style) -> None:
        panels = self._panels()
        grid = figure.subplots(*self._shape(), squeeze=False).flatten()
        for axes in grid[len(panels) :]:
            axes.remove()
        for axes, panel in zip(grid, panels, strict=False):
            top = max(float(np.abs(panel.values).max()), 1e-6)
            image = axes.imshow(panel.values, cmap="RdBu", vmin=-top, vmax=top, aspect="auto")
            axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
            axes.title.set_size(style.text)
            axes.locator_params(nbins=4, integer=True)
            bar = figure.colorbar(image, ax=axes, pad=0.02, label="value")
            bar.ax.locator_params(nbins=3)


class _Panel(NamedTuple):
    title: str
    values: Weights
    x: str
    y: str


def _rounded(tables: Mapping[str, Weights]) -> dict[str, Any]:
    return {name: values.round(6).tolist() for name, values in tables.items()}


@torch.inference_mode()
def position_tables(
    model: nn.Module, *, length: int = 32, text: str = TREE[0], heads: str = TREE[1]
) -> PositionTables:
    """Return the position encodings of a Transformer for `length` positions.

    Tree positions are those of `text`, whose words have these `heads`; `length` is then the number of words.
    """
    tree = None
    if getattr(model, "reads_trees", False):
        tree = _tree(text, heads)
        length = tree.depth.shape[1]
    at = torch.arange(length)
    vectors = _inputs(model, at, tree)
    biases: dict[str, Weights] = {}
    for side in ("encoder", "decoder"):
        attention = _first_attention(model, side)
        if attention is None:
            continue
        if isinstance(attention.positions, Rotary):
            vectors.setdefault("queries and keys", _rotated(attention, at))
            continue
        bias = _bias(attention, at, tree)
        if bias is not None:
            biases[side] = bias.double().numpy()
    if not vectors and not biases:
        raise SeqloomError(
            f"{type(model).__name__} has no position encoding.",
            "use a Transformer with model.positions other than none",
        )
    return PositionTables(length, vectors, biases)


def _tree(text: str, heads: str) -> TreePositions:
    try:
        found = parse_heads(heads, text)
    except Malformed as fault:
        raise SeqloomError(
            f"{heads!r} is not a tree of {text!r}: {fault}.", "give one head per word"
        ) from fault
    return tree_positions(torch.tensor([found], dtype=torch.long))


def _inputs(model: nn.Module, at: Tensor, tree: TreePositions | None) -> dict[str, Weights]:
    """Return the vectors that are added to source and target; once if both are the same."""
    found: dict[str, Weights] = {}
    for name, module in model.named_modules():
        side = name.rsplit(".")[-1].removesuffix("_positions")
        if isinstance(module, TreeInput) and tree is not None:
            zero = torch.zeros(1, len(at), module.width)
            found[side] = module(zero, at, tree.depth)[0].double().numpy()
        elif isinstance(module, InputPositions) and (module.sinusoidal or module.table is not None):
            if module.table is not None and len(at) > module.table.num_embeddings:
                raise SeqloomError(
                    f"The model has only {module.table.num_embeddings} learned positions.",
                    "use a smaller --length",
                )
            table = sinusoids(at, module.width) if module.table is None else module.table(at)
            found[side] = table.double().numpy()
    tables = list(found.values())
    if len(tables) == 2 and np.array_equal(tables[0], tables[1]):
        return {"source and target": tables[0]}
    return found


def _first_attention(model: nn.Module, side: str) -> SelfAttention | None:
    part = getattr(model, side, None)
    modules = part.modules() if isinstance(part, nn.Module) else ()
    return next((module for module in modules if isinstance(module, SelfAttention)), None)


def _rotated(attention: SelfAttention, at: Tensor) -> Weights:
    """Return the unit vector with equal components, rotated by each position, (T, d)."""
    width = attention.qk_width
    same = torch.full((1, 1, len(at), width), width**-0.5)
    table: Weights = attention.positions.rotate(same, at)[0, 0].double().numpy()
    return table


def _bias(attention: SelfAttention, at: Tensor, tree: TreePositions | None) -> Tensor | None:
    """Return the bias of the scores, (H, T, T), or None if there is none."""
    kind: AttentionPositions = attention.positions
    if isinstance(kind, Relative):
        return _deviation(_relative_keys(kind, at), kind.scale)
    if isinstance(kind, TreeRelative):
        assert tree is not None
        relative = tree.relative[0].clamp(-kind.tree.clip, kind.tree.clip) + kind.tree.clip
        keys = _relative_keys(kind.linear, at) + kind.tree.keys[relative]
        return _deviation(keys, kind.linear.scale)
    queries = torch.zeros(1, attention.heads, len(at), attention.qk_width)
    bias = kind.bias(queries, at, len(at))
    return None if bias is None else bias.expand(attention.heads, -1, -1)


def _deviation(keys: Tensor, scale: float) -> Tensor:
    """Return the standard deviation of q·a over queries, (1, T, T), for vectors a (T, T, d)."""
    norms: Tensor = keys.norm(dim=-1) * scale
    return norms.unsqueeze(0)


def _relative_keys(kind: Relative, at: Tensor) -> Tensor:
    """Return the vectors a of all pairs of positions, (T, T, d)."""
    apart = at - at.unsqueeze(1)
    return kind.keys[apart.clamp(-kind.clip, kind.clip) + kind.clip]
