"""Cost of each kind of module, as a function of the positions that it processes.

Only the FLOPs of matrix products are counted, a multiply-add as two; softmax, norms and other element-wise
operations are not. y = W x has the gradients Wᵀ dy and dy xᵀ, each as expensive as y itself: a backward pass
costs twice the forward pass, unless a rule states otherwise.
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
from seqloom.nn.pooling import WeightedSum
from seqloom.nn.positions import AttentionPositions, InputPositions, Relative
from seqloom.nn.scores import PerceptronScore, ProductScore

FLOAT = 4  # bytes
# Vectors kept per position: h; r, z, n, W_n h and h; i, f, n, o, c, tanh c and h.
KEPT_BY_CELL: dict[CellName, int] = {"rnn": 1, "gru": 5, "lstm": 7}


@dataclass
class Use:
    """Inputs of a module during one batch, summed over all calls."""

    sentences: int = 1
    calls: int = 0
    rows: int = 0  # positions in all sentences
    width: int = 0  # of the input vectors
    keys: int = 0  # attended positions per sentence
    new: int = 0  # bytes of inputs that no other module has kept already
    gradient: bool = True  # whether the input requires a gradient

    @property
    def length(self) -> int:
        """Positions per sentence."""
        return self.rows // self.sentences

    def add(self, x: Tensor, *, keys: int, new: int) -> None:
        """Record a call with input x (..., width)."""
        self.calls, self.new, self.keys = self.calls + 1, self.new + new, keys
        self.rows, self.width = self.rows + x.numel() // x.shape[-1], x.shape[-1]
        self.gradient = x.requires_grad


@dataclass(frozen=True)
class Cost:
    """FLOPs of both passes, and the bytes kept for the backward pass."""

    forward: int = 0
    backward: int = 0
    kept: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.forward + other.forward, self.backward + other.backward, self.kept + other.kept)


def _products(pairs: int, *, backward: int = 2) -> Cost:
    """Return the cost of `pairs` multiply-adds, with the backward pass as a multiple of the forward pass."""
    return Cost(2 * pairs, 2 * pairs * backward)


def _floats(count: int) -> Cost:
    """Return the cost of keeping `count` floats."""
    return Cost(kept=FLOAT * count)


@singledispatch
def cost(module: nn.Module, use: Use) -> Cost | None:
    """Return the cost of a module without its submodules; None if there is no rule."""
    return None


@cost.register(nn.Embedding)
@cost.register(InputPositions)
@cost.register(Residual)
@cost.register(ProductScore)
@cost.register(PerceptronScore)
def _no_cost(module: nn.Module, use: Use) -> Cost:
    return Cost()


@cost.register
def _linear(module: nn.Linear, use: Use) -> Cost:
    """Return the cost of W x, which keeps x; without an input gradient, one backward product is not needed."""
    pairs = use.rows * module.in_features * module.out_features
    return _products(pairs, backward=2 if use.gradient else 1) + Cost(kept=use.new)


@cost.register(nn.LayerNorm)
@cost.register(nn.RMSNorm)
def _norm(module: nn.Module, use: Use) -> Cost:
    """Return the cost of a norm, which keeps input, mean and deviation.

    RMS norm has no fused kernel here and keeps the normalised input instead of the mean.
    """
    numbers = 2 if isinstance(module, nn.LayerNorm) else 1 + use.width
    return Cost(kept=use.new) + _floats(use.rows * numbers)


@cost.register
def _dropout(module: Dropout, use: Use) -> Cost:
    """Return the cost of dropout, which keeps one byte per element."""
    return Cost(kept=use.rows * use.width if module.training and module.threshold else 0)


@cost.register
def _feed_forward(module: FeedForward, use: Use) -> Cost:
    """Return the cost of the activation, which keeps its input.

    relu keeps its output, which the next matrix keeps anyway unless there is dropout between them.
    """
    dropped = module.training and module.dropout.threshold > 0
    times = {"relu": int(dropped), "gelu": 1, "silu": 1, "swiglu": 3}[module.activation]
    return _floats(times * use.rows * module.contract.in_features)


@cost.register
def _self_attention(module: SelfAttention, use: Use) -> Cost:
    """Return the cost of n² scores and sums over n values, plus q·a and Σ α b of each relative distance.

    The fused kernel keeps one number per query instead of n² weights, unless the positions add a bias to every
    pair. It has no raw weights.
    """
    queries, widths = use.rows * module.heads, module.qk_width + module.v_width
    relative = sum(len(part.keys) for part in module.positions.modules() if isinstance(part, Relative))
    weighted = module.weights_kind == "raw" or type(module.positions).bias is not AttentionPositions.bias
    return (
        _products(queries * (use.length + relative) * widths)
        + _projected(module, use)
        + _floats(queries * ((use.length if weighted else 1) + 2 * relative))
    )


@cost.register
def _linformer(module: LinformerAttention, use: Use) -> Cost:
    """Return the cost of projecting n keys and values to r, then n r scores and sums over r values."""
    (matrices, rank, _), widths = module.projection.shape, module.qk_width + module.v_width
    matrices *= 1 if module.value_projection is None else 2
    kept = use.rows * rank * matrices + use.sentences * rank * module.heads * widths + use.rows * module.heads
    return _products(2 * use.rows * rank * module.heads * widths) + _projected(module, use) + _floats(kept)


@cost.register
def _block_sparse(module: BlockSparseAttention, use: Use) -> Cost:
    """Return the cost of the visible blocks, recomputed for the gradient; global blocks attend to all."""
    if module.sees_all(use.length):
        return _self_attention(module, use)
    blocks = math.ceil(use.length / module.block)
    one = use.sentences * module.heads * module.block**2 * (module.qk_width + module.v_width)
    sparse = _products(one * (blocks - module.global_blocks) * blocks_seen(module), backward=3)
    attended = module.global_blocks if module.causal else blocks  # by the global blocks
    return sparse + _products(one * module.global_blocks * attended) + _projected(module, use)


def blocks_seen(module: BlockSparseAttention) -> int:
    """Return the number of key blocks that a query block attends to."""
    near = module.neighbours + 1 if module.causal else 2 * module.neighbours + 1
    return near + module.global_blocks + module.draws.shape[1]


def _projected(module: SelfAttention, use: Use) -> Cost:
    """Return the cost of keeping queries, keys and values; rotated queries and keys are kept twice."""
    rotated = type(module.positions).rotate is not AttentionPositions.rotate
    return _floats(use.rows * module.heads * ((4 if rotated else 2) * module.qk_width + module.v_width))


@cost.register
def _cross_attention(module: CrossAttention, use: Use) -> Cost:
    """Return the cost of a score per target and source position, and of the sums over source values."""
    widths = module.qk_width + module.v_width
    per_query = use.keys if module.weights_kind == "raw" else 1
    kept = use.rows * (module.qk_width + per_query) + use.sentences * use.keys * widths
    return _products(use.rows * use.keys * module.heads * widths) + _floats(module.heads * kept)


@cost.register
def _recurrent(module: RecurrentLayer, use: Use) -> Cost:
    """Return the cost of W h and U x of all gates; x and the factors in the equations are kept."""
    gates, inputs = module.weights().input.shape
    kept = Cost(kept=use.new) + _floats(use.rows * module.width * KEPT_BY_CELL[module.cell.name])
    return _products(use.rows * gates * (inputs + module.width)) + kept


@cost.register
def _attention_context(module: AttentionContext, use: Use) -> Cost:
    """Return the cost of the weighted sum, and of product scores; matrices in a score have their own rule."""
    pairs, score = use.rows * use.keys, module.score
    found = _products(pairs * module.width) + _floats(pairs)
    if isinstance(score, ProductScore):
        found += _products((pairs + (use.rows if score.coverage is not None else 0)) * module.width)
    return found


@cost.register
def _mean_context(module: MeanContext, use: Use) -> Cost:
    """Return the cost of a weighted sum with constant weights."""
    pairs = use.rows * use.keys
    return _products(pairs * module.width, backward=1) + _floats(pairs)


@cost.register
def _weighted_sum(module: WeightedSum, use: Use) -> Cost:
    """Return the cost of A h, whose weights need a gradient only if they are learned."""
    pairs = use.rows * use.width
    return _products(pairs * module.width, backward=2 if use.gradient else 1) + _floats(pairs)
