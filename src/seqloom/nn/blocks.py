"""Transformer blocks: attention and feed-forward, each inside a normalised residual connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn.functional import gelu, relu, silu

from seqloom.errors import require_known
from seqloom.nn.attention import WeightsName
from seqloom.nn.dropout import Dropout
from seqloom.nn.kv_cache import KVCache
from seqloom.nn.multihead import CrossAttention, HeadOptions, KeysValues, SelfAttention
from seqloom.nn.positions import AttentionPositions, PositionName, attention_positions
from seqloom.nn.prefix import PrefixAttention
from seqloom.nn.syntax import TreeRelative

Activation = Literal["relu", "gelu", "silu", "swiglu", "none"]
NormName = Literal["layer", "rms"]
NormPlace = Literal["before", "after", "none"]

_FEED_FORWARD: dict[Activation, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu, "silu": silu}


@dataclass(frozen=True)
class BlockShape:
    """Sizes and options shared by all blocks of a model."""

    width: int
    heads: int
    qk_width: int  # width of a query or key, per head
    v_width: int  # width of a value, per head
    ffn: int
    dropout: float
    activation: Activation = "relu"  # none: no feed-forward layer
    norm: NormName = "layer"
    norm_place: NormPlace = "before"
    residual: bool = True
    scaled: bool = True
    attention_bias: bool = True  # in the projections to queries, keys, values and the output
    attention_weights: WeightsName = "softmax"
    positions: PositionName = "none"
    clip: int = 16  # largest distance that relative positions distinguish

    def __post_init__(self) -> None:
        require_known("activation", self.activation, get_args(Activation))
        require_known("norm", self.norm, get_args(NormName))
        require_known("norm placement", self.norm_place, get_args(NormPlace))
        require_known("position kind", self.positions, get_args(PositionName))

    def self_attention(
        self, *, causal: bool, kind: Callable[..., SelfAttention] = SelfAttention
    ) -> SelfAttention:
        """Return self-attention built by `kind`, which takes the arguments of SelfAttention."""
        return kind(
            self.width,
            self.heads,
            self.qk_width,
            self.v_width,
            positions=self._attention_positions(causal),
            **self._head_options(),
        )

    def _head_options(self) -> HeadOptions:
        return {"scaled": self.scaled, "bias": self.attention_bias, "weights": self.attention_weights}

    def _attention_positions(self, causal: bool) -> AttentionPositions:
        if self.positions == "syntax" and not causal:  # only a source has a tree
            return TreeRelative(self.qk_width, self.v_width, clip=self.clip, scaled=self.scaled)
        return attention_positions(
            self.positions,
            self.heads,
            self.qk_width,
            self.v_width,
            causal=causal,
            scaled=self.scaled,
            clip=self.clip,
        )

    def cross_attention(self) -> CrossAttention:
        return CrossAttention(self.width, self.heads, self.qk_width, self.v_width, **self._head_options())

    def final_norm(self) -> nn.Module:
        """Return the norm after the last block; the output of pre-norm blocks is not normalised yet."""
        return make_norm(self.norm, self.width) if self.norm_place == "before" else nn.Identity()


def make_norm(name: NormName, width: int) -> nn.Module:
    """Return a norm layer.

    layer: (x - mean) / deviation (Ba et al. 2016); rms: x / √mean(x²), without the mean (Zhang & Sennrich
    2019).
    """
    require_known("norm", name, get_args(NormName))
    return nn.LayerNorm(width) if name == "layer" else nn.RMSNorm(width, eps=1e-6)


class Residual(nn.Module):
    """Residual connection: x + f(norm x), norm(x + f(x)) or x + f(x).

    Without the residual x, the gradient has no path around f.
    """

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.place, self.residual = shape.norm_place, shape.residual
        self.norm = nn.Identity() if shape.norm_place == "none" else make_norm(shape.norm, shape.width)
        self.dropout = Dropout(shape.dropout)

    def prepare_input(self, x: Tensor) -> Tensor:
        """Return the input of f."""
        return self.norm(x) if self.place == "before" else x

    def add_residual(self, x: Tensor, out: Tensor) -> Tensor:
        """Return x combined with the output of f."""
        out = x + self.dropout(out) if self.residual else self.dropout(out)
        return self.norm(out) if self.place == "after" else out


class FeedForward(nn.Module):
    """Position-wise feed-forward, W₂ σ(W₁ x + b₁) + b₂; swiglu is gated: W₂ (silu(W₁ x) ⊙ W₃ x)."""

    def __init__(self, width: int, inner: int, activation: Activation, dropout: float) -> None:
        super().__init__()
        require_known("activation", activation, (*_FEED_FORWARD, "swiglu"))
        self.activation = activation
        self.expand = nn.Linear(width, 2 * inner if activation == "swiglu" else inner)
        self.contract = nn.Linear(inner, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.dropout(self._activate(self.expand(x))))

    def _activate(self, x: Tensor) -> Tensor:
        if self.activation != "swiglu":
            return _FEED_FORWARD[self.activation](x)
        gate, value = x.chunk(2, dim=-1)
        return silu(gate) * value


class _Block(nn.Module):
    """Base of all blocks: the feed-forward layer, unless the activation is none."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        has_ffn = shape.activation != "none"
        self.ffn = FeedForward(shape.width, shape.ffn, shape.activation, shape.dropout) if has_ffn else None
        self.ffn_residual = Residual(shape) if has_ffn else None

    def feed_forward(self, x: Tensor) -> Tensor:
        if self.ffn is None or self.ffn_residual is None:
            return x
        return self.ffn_residual.add_residual(x, self.ffn(self.ffn_residual.prepare_input(x)))


class EncoderBlock(_Block):
    """Self-attention (full by default), then feed-forward, each inside a residual connection."""

    def __init__(self, shape: BlockShape, kind: Callable[..., SelfAttention] = SelfAttention) -> None:
        super().__init__(shape)
        self.attention = shape.self_attention(causal=False, kind=kind)
        self.attention_residual = Residual(shape)

    def forward(self, x: Tensor, mask: Tensor, at: Tensor | None = None) -> Tensor:
        """Return (B, S, D) for x (B, S, D). mask (B, S): True on real positions; at: see SelfAttention."""
        attended = self.attention(self.attention_residual.prepare_input(x), mask=mask, at=at)
        return self.feed_forward(self.attention_residual.add_residual(x, attended))


class DecoderBlock(_Block):
    """Causal self-attention, cross-attention and feed-forward, each inside a residual connection."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__(shape)
        self.attention = shape.self_attention(causal=True)
        self.attention_residual = Residual(shape)
        self.cross = shape.cross_attention()
        self.cross_residual = Residual(shape)

    def forward(self, x: Tensor, source: Tensor, source_mask: Tensor) -> Tensor:
        """Return (B, T, D). Target padding is on the right, so the causal mask hides it from real positions."""
        attended = self.attention(self.attention_residual.prepare_input(x), causal=True)
        x = self.attention_residual.add_residual(x, attended)
        crossed = self.cross(self.cross_residual.prepare_input(x), self.cross.project_kv(source), source_mask)
        return self.feed_forward(self.cross_residual.add_residual(x, crossed))

    def step(
        self, x: Tensor, past: KVCache | None, at: Tensor, memory: KeysValues, source_mask: Tensor
    ) -> tuple[Tensor, KVCache, Tensor]:
        """Compute one position per row: output (R, 1, D), extended cache, cross weights (R, H, S)."""
        attended, past = self.attention.step(self.attention_residual.prepare_input(x), past, at)
        x = self.attention_residual.add_residual(x, attended)
        crossed, weights = self.cross.step(self.cross_residual.prepare_input(x), memory, source_mask)
        return self.feed_forward(self.cross_residual.add_residual(x, crossed)), past, weights


class LanguageBlock(_Block):
    """Self-attention and feed-forward of a language model, which can continue a prefix.

    The submodules are named as in DecoderBlock, so that one can be initialised from the other.
    """

    def __init__(
        self, shape: BlockShape, *, causal: bool, kind: Callable[..., PrefixAttention] = PrefixAttention
    ) -> None:
        super().__init__(shape)
        attention = shape.self_attention(causal=causal, kind=kind)
        assert isinstance(attention, PrefixAttention)
        self.attention = attention
        self.attention_residual = Residual(shape)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return (B, T, D). mask (B, 1, T, T): which keys each query attends to; None: causal."""
        x_in = self.attention_residual.prepare_input(x)
        attended = self.attention(x_in, mask=mask, causal=mask is None)
        return self.feed_forward(self.attention_residual.add_residual(x, attended))

    def project_kv(self, x: Tensor) -> KeysValues:
        """Return keys and values of a prefix, given as this block's input (B, S, D)."""
        return self.attention.project_kv(self.attention_residual.prepare_input(x))

    def step(
        self, x: Tensor, prefix: KeysValues, real: Tensor, past: KVCache | None, since: Tensor
    ) -> tuple[Tensor, KVCache, Tensor]:
        """Compute one position per row: output (R, 1, D), extended cache, weights on the prefix."""
        x_in = self.attention_residual.prepare_input(x)
        attended, past, weights = self.attention.step_after_prefix(x_in, prefix, real, past, since)
        return self.feed_forward(self.attention_residual.add_residual(x, attended)), past, weights
