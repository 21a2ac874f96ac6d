"""What each part of a model costs, as formulas of the positions that come to it.

FLOPs are those of matrix products, a multiply-add counts as two; softmax, norms and what else is done to single
numbers is left out. y = W x has the gradients Wᵀ dy and dy xᵀ, each as dear as y itself: a backward pass costs
twice the forward one, except where a rule says otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch

from torch import Tensor, nn

from seqloom.nn.blocks import FeedForward, Residual
from seqloom.nn.cells import CellName, RecurrentLayer
from seqloom.nn.context import AttentionContext, MeanContext
from seqloom.nn.dropout import Dropout
from seqloom.nn.longattention import BlockSparseAttention, LinformerAttention
from seqloom.nn.multihead import CrossAttention, SelfAttention
from seqloom.nn.positions import AttentionPositions, InputPositions, Relative
from seqloom.nn.scores import PerceptronScore, ProductScore

FLOAT = 4  # bytes
# Vectors per position: h; r, z, n, W_n h and h; i, f, n, o, c, tanh c and h.
KEPT_BY_CELL: dict[CellName, int] = {"rnn": 1, "gru": 5, "lstm": 7}


@dataclass
class Use:
    """What one batch brought to a module, all calls together."""

    sentences: int = 1
    calls: int = 0
    rows: int = 0  # positions, of all sentences
    width: int = 0  # of the vector at a position
    keys: int = 0  # positions of a sentence that are attended to
    new: int = 0  # bytes of inputs that no other module had before
    gradient: bool = True  # whether the input wants a gradient

    @property
    def length(self) -> int:
        """Positions of one sentence."""
        return self.rows // self.sentences

    def add(self, x: Tensor, *, keys: int, new: int) -> None:
        """One more call, with such an input (..., width)."""
        self.calls, self.new, self.keys = self.calls + 1, self.new + new, keys
        self.rows, self.width = self.rows + x.numel() // x.shape[-1], x.shape[-1]
        self.gradient = x.requires_grad


@dataclass(frozen=True)
class Cost:
    """FLOPs of both passes, and the bytes that the forward pass leaves for the backward one."""

    forward: int = 0
    backward: int = 0
    kept: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.forward + other.forward, self.backward + other.backward, self.kept + other.kept)


def _products(pairs: int, *, backward: int = 2) -> Cost:
    """So many multiply-adds, and their gradients as a multiple of them."""
    return Cost(2 * pairs, 2 * pairs * backward)


def _numbers(count: int) -> Cost:
    """So many numbers that are kept."""
    return Cost(kept=FLOAT * count)


@singledispatch
def cost(module: nn.Module, use: Use) -> Cost | None:
    """Of what a module itself computes, without the modules inside it; None if there is no rule."""
    return None


@cost.register(nn.Embedding)
@cost.register(InputPositions)
@cost.register(Residual)
@cost.register(ProductScore)
@cost.register(PerceptronScore)
def _nothing(module: nn.Module, use: Use) -> Cost:
    return Cost()


@cost.register
def _linear(module: nn.Linear, use: Use) -> Cost:
    """W x keeps x. Where no gradient goes further down, one of the two products is left out."""
    pairs = use.rows * module.in_features * module.out_features
    return _products(pairs, backward=2 if use.gradient else 1) + Cost(kept=use.new)


@cost.register(nn.LayerNorm)
@cost.register(nn.RMSNorm)
def _norm(module: nn.Module, use: Use) -> Cost:
    """Keeps its input, mean and deviation; RMS norm, which has no kernel here, the normalised input instead."""
    numbers = 2 if isinstance(module, nn.LayerNorm) else 1 + use.width
    return Cost(kept=use.new) + _numbers(use.rows * numbers)


@cost.register
def _dropout(module: Dropout, use: Use) -> Cost:
    """Keeps a byte for every number."""
    return Cost(kept=use.rows * use.width if module.training and module.threshold else 0)


@cost.register
def _feed_forward(module: FeedForward, use: Use) -> Cost:
    """The activation keeps its input, or relu its output: without dropout the next matrix keeps that anyway."""
    dropped = module.training and module.dropout.threshold > 0
    times = {"relu": int(dropped), "gelu": 1, "silu": 1, "swiglu": 3}[module.activation]
    return _numbers(times * use.rows * module.contract.in_features)


@cost.register
def _self_attention(module: SelfAttention, use: Use) -> Cost:
    """n² scores and the sum of n values at n positions; also q·a and Σ α b of each relative distance.

    The fused kernel keeps one number per query instead of the n² weights, but not where positions have a
    bias for every pair.
    """
    queries, widths = use.rows * module.heads, module.qk_width + module.v_width
    relative = sum(len(part.keys) for part in module.positions.modules() if isinstance(part, Relative))
    biased = type(module.positions).bias is not AttentionPositions.bias
    return (
        _products(queries * (use.length + relative) * widths)
        + _projected(module, use)
        + _numbers(queries * ((use.length if biased else 1) + 2 * relative))
    )


@cost.register
def _linformer(module: LinformerAttention, use: Use) -> Cost:
    """n keys and values become r, then n r scores and the sum of r values at n positions."""
    (matrices, rank, _), widths = module.projection.shape, module.qk_width + module.v_width
    kept = use.rows * rank * matrices + use.sentences * rank * module.heads * widths + use.rows * module.heads
    return _products(2 * use.rows * rank * module.heads * widths) + _projected(module, use) + _numbers(kept)


@cost.register
def _block_sparse(module: BlockSparseAttention, use: Use) -> Cost:
    """Each block meets the blocks that it sees, and once more for the gradient; the global ones meet all."""
    if module.sees_all(use.length):
        return _self_attention(module, use)
    blocks = math.ceil(use.length / module.block)
    one = use.sentences * module.heads * module.block**2 * (module.qk_width + module.v_width)
    sparse = _products(one * (blocks - module.global_blocks) * blocks_seen(module), backward=3)
    return sparse + _products(one * module.global_blocks * blocks) + _projected(module, use)


def blocks_seen(module: BlockSparseAttention) -> int:
    """How many blocks of keys a block of queries meets."""
    return 2 * module.neighbours + 1 + module.global_blocks + module.draws.shape[1]


def _projected(module: SelfAttention, use: Use) -> Cost:
    """Queries, keys and values, which wait for the gradient; queries and keys twice if they were turned."""
    turned = type(module.positions).rotate is not AttentionPositions.rotate
    return _numbers(use.rows * module.heads * ((4 if turned else 2) * module.qk_width + module.v_width))


@cost.register
def _cross_attention(module: CrossAttention, use: Use) -> Cost:
    """A score for every target and source position, and the sum of the source's values."""
    widths = module.qk_width + module.v_width
    kept = use.rows * (module.qk_width + 1) + use.sentences * use.keys * widths
    return _products(use.rows * use.keys * module.heads * widths) + _numbers(module.heads * kept)


@cost.register
def _recurrent(module: RecurrentLayer, use: Use) -> Cost:
    """W h and U x of all gates; x and what the equations multiply are kept."""
    gates, inputs = module.weights().input.shape
    kept = Cost(kept=use.new) + _numbers(use.rows * module.width * KEPT_BY_CELL[module.cell.name])
    return _products(use.rows * gates * (inputs + module.width)) + kept


@cost.register
def _attention_context(module: AttentionContext, use: Use) -> Cost:
    """The sum of the values, and the scores if they are products; matrices inside the score tell their own."""
    pairs, score = use.rows * use.keys, module.score
    found = _products(pairs * module.width) + _numbers(pairs)
    if isinstance(score, ProductScore):
        found += _products((pairs + (use.rows if score.coverage is not None else 0)) * module.width)
    return found


@cost.register
def _mean_context(module: MeanContext, use: Use) -> Cost:
    """The sum of the values by weights that nothing is learned from."""
    pairs = use.rows * use.keys
    return _products(pairs * module.width, backward=1) + _numbers(pairs)
