"""Complexity, sequential operations and maximum path length of each kind of layer.

After Vaswani et al. 2017, table 1. n is the number of positions, n' that of the other side, d the width. The
path length is the number of layers (or steps) between the two positions that are furthest apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch

from torch import nn

from seqloom.inspect.cost_rules import Use, blocks_seen
from seqloom.nn.blocks import FeedForward, Residual
from seqloom.nn.cells import RecurrentLayer
from seqloom.nn.context import AttentionContext, MeanContext
from seqloom.nn.dropout import Dropout
from seqloom.nn.longattention import BlockSparseAttention, LinformerAttention, WindowAttention
from seqloom.nn.multihead import AttentionHeads, CrossAttention, SelfAttention

_KINDS: dict[type[nn.Module], str] = {  # subclasses before their base classes
    LinformerAttention: "linformer",
    WindowAttention: "window",
    BlockSparseAttention: "bigbird",
    SelfAttention: "self-attention",
    CrossAttention: "cross-attention",
    AttentionContext: "attention",
    MeanContext: "mean",
    FeedForward: "feed-forward",
    Residual: "residual",
    Dropout: "dropout",
}


@dataclass(frozen=True)
class Layer:
    """Row of the table, for one kind of layer with its n and d."""

    kind: str
    positions: int  # n
    width: int  # d
    complexity: str  # formula without constant factors
    operations: int  # value of the formula
    sequential: int  # operations that cannot run in parallel
    path: int | None  # None: no signal reaches the furthest position


def kind_of(module: nn.Module) -> str:
    """Return the usual name of a module's kind, or an empty string if its attribute name is better."""
    if isinstance(module, RecurrentLayer):
        return module.cell.name
    return next((name for kind, name in _KINDS.items() if isinstance(module, kind)), "")


@singledispatch
def layer_of(module: nn.Module, use: Use) -> Layer | None:
    """Return the row of a module, given its use; None if it is not a layer."""
    return None


@layer_of.register
def _full(module: SelfAttention, use: Use) -> Layer:
    n, d = use.length, _width(module)
    return Layer("self-attention", n, d, "O(n² d)", n * n * d, 1, 1)


@layer_of.register
def _linformer(module: LinformerAttention, use: Use) -> Layer:
    n, d, rank = use.length, _width(module), module.projection.shape[1]
    return Layer(kind_of(module), n, d, f"O(r n d), r = {rank}", rank * n * d, 1, 1)


@layer_of.register
def _window(module: WindowAttention, use: Use) -> Layer:
    """Return the row of window attention, which moves a signal by one window per layer."""
    n, d = use.length, _width(module)
    if module.sees_all(n):
        return _full(module, use)
    seen = module.window + 1 if module.causal else 2 * module.window + 1
    path = math.ceil((n - 1) / module.window) if module.window else None
    return Layer(kind_of(module), n, d, f"O(r n d), r = {seen}", seen * n * d, 1, path)


@layer_of.register
def _bigbird(module: BlockSparseAttention, use: Use) -> Layer:
    """Return the row of BigBird attention: any position reaches any other through a global block.

    If it is causal, global blocks see only the beginning, and a signal passes through neighbouring blocks.
    """
    n, d = use.length, _width(module)
    if module.sees_all(n):
        return _full(module, use)
    seen = blocks_seen(module) * module.block
    blocks = math.ceil(n / module.block)
    # Without global blocks the path goes through neighbours; random blocks may make it shorter.
    relayed = module.global_blocks > 0 and not module.causal
    path = 2 if relayed else math.ceil((blocks - 1) / module.neighbours)
    return Layer(kind_of(module), n, d, f"O(r n d), r = {seen}", seen * n * d, 1, path)


@layer_of.register
def _cross(module: CrossAttention, use: Use) -> Layer:
    n, d = use.length, _width(module)
    return Layer(kind_of(module), n, d, "O(n n' d)", n * use.keys * d, 1, 1)


@layer_of.register(AttentionContext)
@layer_of.register(MeanContext)
def _context(module: AttentionContext | MeanContext, use: Use) -> Layer:
    """Return the row of a decoder's source context; with input feeding, each call waits for the last."""
    n, d = use.length, module.width
    return Layer(kind_of(module), n, d, "O(n n' d)", n * use.keys * d, use.calls, 1)


@layer_of.register
def _recurrent(module: RecurrentLayer, use: Use) -> Layer:
    n, d = use.length, module.width
    return Layer(f"recurrent, {kind_of(module)}", n, d, "O(n d²)", n * d * d, n, n)


@layer_of.register
def _feed_forward(module: FeedForward, use: Use) -> Layer:
    n, d, inner = use.length, module.contract.out_features, module.contract.in_features
    return Layer(kind_of(module), n, d, f"O(n d f), f = {inner}", n * d * inner, 1, None)


def _width(module: AttentionHeads) -> int:
    """Return the total width of all heads."""
    return module.heads * module.qk_width
