"""The Transformer's blocks: attention and feed-forward, each inside a normalised residual connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn.functional import gelu, relu, silu

from seqloom.errors import require_known
from seqloom.nn.dropout import Dropout
from seqloom.nn.kv_cache import KVCache
from seqloom.nn.multihead import CrossAttention, KeysValues, SelfAttention
from seqloom.nn.positions import AttentionPositions, PositionName, attention_positions
from seqloom.nn.prefix import PrefixAttention
from seqloom.nn.syntax import TreeRelative

Activation = Literal["relu", "gelu", "silu", "swiglu", "none"]
NormName = Literal["layer", "rms"]
NormPlace = Literal["before", "after", "none"]

_FEED_FORWARD: dict[Activation, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu, "silu": silu}


@dataclass(frozen=True)
class BlockShape:
    """Sizes and choices that all blocks of a model share."""

    width: int
    heads: int
    qk_width: int  # of a query or key of one head
    v_width: int  # of a value of one head
    ffn: int
    dropout: float
    activation: Activation = "relu"  # none: no feed-forward part at all
    norm: NormName = "layer"
    norm_place: NormPlace = "before"
    residual: bool = True
    scaled: bool = True
    positions: PositionName = "none"
    clip: int = 16  # the longest distance that relative positions tell apart

    def __post_init__(self) -> None:
        require_known("activation", self.activation, get_args(Activation))
        require_known("norm", self.norm, get_args(NormName))
        require_known("place of a norm", self.norm_place, get_args(NormPlace))
        require_known("position kind", self.positions, get_args(PositionName))

    def self_attention(
        self, *, causal: bool, kind: Callable[..., SelfAttention] = SelfAttention
    ) -> SelfAttention:
        """Made by `kind`, which takes what SelfAttention takes."""
        return kind(
            self.width,
            self.heads,
            self.qk_width,
            self.v_width,
            scaled=self.scaled,
            positions=self._attention_positions(causal),
        )

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
        return CrossAttention(self.width, self.heads, self.qk_width, self.v_width, scaled=self.scaled)

    def final_norm(self) -> nn.Module:
        """What stands behind the last block: blocks that normalise their input leave their sum as it grew."""
        return make_norm(self.norm, self.width) if self.norm_place == "before" else nn.Identity()


def make_norm(name: NormName, width: int) -> nn.Module:
    """(x - mean) / deviation (Ba et al. 2016), or x / √mean(x²) without the mean (Zhang & Sennrich 2019)."""
    require_known("norm", name, get_args(NormName))
    return nn.LayerNorm(width) if name == "layer" else nn.RMSNorm(width, eps=1e-6)


class Residual(nn.Module):
    """x + f(norm x), or norm(x + f(x)), or x + f(x); without the x, nothing leads the gradient past f."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.place, self.residual = shape.norm_place, shape.residual
        self.norm = nn.Identity() if shape.norm_place == "none" else make_norm(shape.norm, shape.width)
        self.dropout = Dropout(shape.dropout)

    def enter(self, x: Tensor) -> Tensor:
        """What f sees."""
        return self.norm(x) if self.place == "before" else x

    def leave(self, x: Tensor, out: Tensor) -> Tensor:
        """What comes of x and f's answer."""
        out = x + self.dropout(out) if self.residual else self.dropout(out)
        return self.norm(out) if self.place == "after" else out


class FeedForward(nn.Module):
    """W₂ σ(W₁ x + b₁) + b₂ at every position alone; swiglu has a gate: W₂ (silu(W₁ x) ⊙ W₃ x)."""

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
    """The part that encoder and decoder blocks share: the feed-forward, or nothing in its place."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        wanted = shape.activation != "none"
        self.ffn = FeedForward(shape.width, shape.ffn, shape.activation, shape.dropout) if wanted else None
        self.ffn_residual = Residual(shape) if wanted else None

    def feed_forward(self, x: Tensor) -> Tensor:
        if self.ffn is None or self.ffn_residual is None:
            return x
        return self.ffn_residual.leave(x, self.ffn(self.ffn_residual.enter(x)))


class EncoderBlock(_Block):
    """Self-attention, full or of another kind, then feed-forward, each inside a residual connection."""

    def __init__(self, shape: BlockShape, kind: Callable[..., SelfAttention] = SelfAttention) -> None:
        super().__init__(shape)
        self.attention = shape.self_attention(causal=False, kind=kind)
        self.attention_residual = Residual(shape)

    def forward(self, x: Tensor, mask: Tensor, at: Tensor | None = None) -> Tensor:
        """(B, S, D) from (B, S, D). mask (B, S): which positions are real; at: see SelfAttention."""
        attended = self.attention(self.attention_residual.enter(x), mask=mask, at=at)
        return self.feed_forward(self.attention_residual.leave(x, attended))


class DecoderBlock(_Block):
    """Causal self-attention, attention to the source, feed-forward, each inside a residual connection."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__(shape)
        self.attention = shape.self_attention(causal=True)
        self.attention_residual = Residual(shape)
        self.cross = shape.cross_attention()
        self.cross_residual = Residual(shape)

    def forward(self, x: Tensor, source: Tensor, source_mask: Tensor) -> Tensor:
        """(B, T, D). Padding stands at the end of a target, so the causal mask hides it from all before."""
        attended = self.attention(self.attention_residual.enter(x), causal=True)
        x = self.attention_residual.leave(x, attended)
        crossed = self.cross(self.cross_residual.enter(x), self.cross.project_kv(source), source_mask)
        return self.feed_forward(self.cross_residual.leave(x, crossed))

    def step(
        self, x: Tensor, past: KVCache | None, at: Tensor, memory: KeysValues, source_mask: Tensor
    ) -> tuple[Tensor, KVCache, Tensor]:
        """One position (R, 1) of every row: output (R, 1, D), the grown cache, cross weights (R, H, S)."""
        attended, past = self.attention.step(self.attention_residual.enter(x), past, at)
        x = self.attention_residual.leave(x, attended)
        crossed, weights = self.cross.step(self.cross_residual.enter(x), memory, source_mask)
        return self.feed_forward(self.cross_residual.leave(x, crossed)), past, weights


class LanguageBlock(_Block):
    """Self-attention and feed-forward of a language model, which can go on behind a prefix.

    Its parts have the names of the decoder's, so that one can start from the other.
    """

    def __init__(self, shape: BlockShape, *, causal: bool) -> None:
        super().__init__(shape)
        attention = shape.self_attention(causal=causal, kind=PrefixAttention)
        assert isinstance(attention, PrefixAttention)
        self.attention = attention
        self.attention_residual = Residual(shape)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D). mask (B, 1, T, T): who sees whom; None: each position what stands before it."""
        entered = self.attention_residual.enter(x)
        attended = self.attention(entered, mask=mask, causal=mask is None)
        return self.feed_forward(self.attention_residual.leave(x, attended))

    def project_kv(self, x: Tensor) -> KeysValues:
        """Keys and values of a prefix that comes into this block, (B, S, D)."""
        return self.attention.project_kv(self.attention_residual.enter(x))

    def step(
        self, x: Tensor, prefix: KeysValues, real: Tensor, past: KVCache | None, since: Tensor
    ) -> tuple[Tensor, KVCache, Tensor]:
        """One position (R, 1) of every row: output (R, 1, D), the grown cache, weights on the prefix."""
        entered = self.attention_residual.enter(x)
        attended, past, weights = self.attention.step_behind(entered, prefix, real, past, since)
        return self.feed_forward(self.attention_residual.leave(x, attended)), past, weights
