"""Position encodings of a Transformer: added to the input, or inside every attention.

Without them, attention treats its input as a set: a permuted sentence gives the permuted output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from seqloom.errors import SeqloomError, require_known

PositionName = Literal["none", "sinusoidal", "learned", "relative", "rotary", "alibi", "t5", "kerple", "syntax"]


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return (..., width): sin and cos of the position at wavelengths from 2π to 20,000π.

    PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(same): Vaswani et al. 2017, section 3.5.
    """
    angles = _angles(positions, width)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def _angles(positions: Tensor, width: int) -> Tensor:
    """Return p / 10000^(2i / width), (..., width / 2)."""
    rates = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10_000.0) / width))
    return positions.unsqueeze(-1) * rates


class InputPositions(nn.Module):
    """Positions added to the embeddings: none, sinusoids, or a learned vector per position."""

    def __init__(self, name: PositionName, width: int, max_length: int) -> None:
        super().__init__()
        require_known("position kind", name, get_args(PositionName))
        self.width = width
        self.sinusoidal = name in ("sinusoidal", "syntax")  # syntax: for a target, which has no tree
        self.table = nn.Embedding(max_length, width) if name == "learned" else None
        if self.table is not None:
            nn.init.normal_(self.table.weight, std=width**-0.5)

    @property
    def rows(self) -> int | None:
        """Maximum number of positions; None: no limit."""
        return None if self.table is None else self.table.num_embeddings

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return x (B, T, D) with the encoding of the positions (T) or (B, T) added."""
        if self.sinusoidal:
            return x + sinusoids(positions, self.width).to(x.dtype)
        if self.table is None:
            return x
        longest = self.table.num_embeddings
        if int(positions.max()) >= longest:  # synchronises with the device, but a wrong result would be worse
            raise SeqloomError(
                f"A sequence is longer than the {longest} learned positions.",
                "train with a higher model.max_length, or with model.positions=sinusoidal",
            )
        return x + self.table(positions)


class TagPositions(nn.Module):
    """Positions of sources with leading tags: 0 for all these tags, and 1, 2, ... for the other tokens.

    The order of feature tags then has no effect, and a word has the same positions after any number of tags
    (Wu, Cotterell & Hulden 2021, arXiv:2005.10213, section 3).
    """

    def __init__(self, vocabulary: int, tags: Sequence[int]) -> None:
        super().__init__()
        is_tag = torch.zeros(vocabulary, dtype=torch.bool)
        is_tag[list(tags)] = True
        self.register_buffer("is_tag", is_tag, persistent=False)
        self.is_tag: Tensor

    def forward(self, source: Tensor) -> Tensor:
        """Return the positions (B, S) of ids (B, S)."""
        leading = self.is_tag[source].long().cumprod(dim=1)
        return (1 - leading).cumsum(dim=1)


class AttentionPositions(nn.Module):
    """Base of position encodings inside attention; subclasses override one or more of three hooks.

    Queries are at positions `at`, (T) or (R, T), keys at 0 … S-1. This class has no effect.
    """

    needs_weights = False  # True: values depend on positions too, so the fused kernel cannot be used

    def rotate(self, x: Tensor, at: Tensor) -> Tensor:
        """Return the queries or keys (B, H, T, d) used in the dot product."""
        return x

    def bias(self, queries: Tensor, at: Tensor, keys: int) -> Tensor | None:
        """Return the bias of the scores, broadcastable to (B, H, T, S), or None."""
        return None

    def values(self, weights: Tensor, at: Tensor) -> Tensor | None:
        """Return a vector to add to the context (B, H, T, d_v), for weights (B, H, T, S), or None."""
        return None


def distances(at: Tensor, keys: int) -> Tensor:
    """Return key position minus query position, (T, S) or (R, 1, T, S), broadcastable over heads."""
    apart = torch.arange(keys, device=at.device) - at.unsqueeze(-1)
    return apart if at.dim() == 1 else apart.unsqueeze(1)


class Rotary(AttentionPositions):
    """Rotation of coordinate pairs by p θ_i, so that q·k depends on the distance only (Su et al. 2021)."""

    def rotate(self, x: Tensor, at: Tensor) -> Tensor:
        angles = _angles(at, x.shape[-1])
        if at.dim() == 2:
            angles = angles.unsqueeze(1)  # (R, 1, T, d/2)
        sin, cos = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class Alibi(AttentionPositions):
    """Score minus slope x distance; head h of H has the slope 2^(-8h/H) (Press et al. 2022)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def bias(self, queries: Tensor, at: Tensor, keys: int) -> Tensor:
        head = torch.arange(1, self.heads + 1, device=queries.device, dtype=queries.dtype)
        slopes = (2 ** (-8 * head / self.heads)).view(-1, 1, 1)
        return -slopes * distances(at, keys).abs().to(queries.dtype)


class T5Buckets(AttentionPositions):
    """Learned bias per head and distance bucket; buckets widen with distance (Raffel et al. 2020)."""

    def __init__(self, heads: int, *, causal: bool, buckets: int = 32, furthest: int = 128) -> None:
        super().__init__()
        self.causal, self.buckets, self.furthest = causal, buckets, furthest
        self.table = nn.Embedding(buckets, heads)
        nn.init.normal_(self.table.weight, std=0.1)

    def bias(self, queries: Tensor, at: Tensor, keys: int) -> Tensor:
        apart = torch.arange(keys, device=at.device) - at.unsqueeze(-1)  # (T, S) or (R, T, S)
        return self.table(self.bucket(apart)).movedim(-1, -3)  # heads before T

    def bucket(self, apart: Tensor) -> Tensor:
        """Return the bucket index: half of the buckets are exact distances, the rest grow logarithmically."""
        count = self.buckets if self.causal else self.buckets // 2
        side = torch.zeros_like(apart) if self.causal else (apart > 0).long() * count
        distance = (-apart).clamp_min(0) if self.causal else apart.abs()
        exact = count // 2
        ratio = (distance.clamp_min(1) / exact).log() / math.log(self.furthest / exact)
        far = (exact + (ratio * (count - exact)).long()).clamp_max(count - 1)
        return side + torch.where(distance < exact, distance, far)


class Kerple(AttentionPositions):
    """Score minus a log(1 + b |i - j|), with learned a, b > 0 per head (Chi et al. 2022, section 4).

    The logarithm grows more slowly than ALiBi's linear penalty, so distant tokens remain reachable.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.raw_scale = nn.Parameter(torch.zeros(heads))  # a = softplus(raw): starts at log 2
        self.raw_rate = nn.Parameter(torch.zeros(heads))  # b = softplus(raw)

    def bias(self, queries: Tensor, at: Tensor, keys: int) -> Tensor:
        scale, rate = (softplus(raw).view(-1, 1, 1) for raw in (self.raw_scale, self.raw_rate))
        return -scale * (rate * distances(at, keys).abs()).log1p()


class Relative(AttentionPositions):
    """Vectors for the clipped distance, added to keys and values: q·(k + a), Σ α (v + b) (Shaw et al. 2018)."""

    needs_weights = True

    def __init__(self, qk_width: int, v_width: int, *, clip: int = 16, scaled: bool = True) -> None:
        super().__init__()
        self.clip = clip
        self.scale = qk_width**-0.5 if scaled else 1.0
        self.keys = nn.Parameter(torch.randn(2 * clip + 1, qk_width) * qk_width**-0.5)
        self.shifts = nn.Parameter(torch.randn(2 * clip + 1, v_width) * v_width**-0.5)

    def _index(self, at: Tensor, keys: int) -> Tensor:
        return distances(at, keys).clamp(-self.clip, self.clip) + self.clip

    def bias(self, queries: Tensor, at: Tensor, keys: int) -> Tensor:
        # q·a for the few distinct distances, then a gather per pair: no (T, S, d) tensor is created.
        scores = queries @ self.keys.T * self.scale  # (B, H, T, 2c+1)
        index = self._index(at, keys)
        return scores.gather(-1, index.expand(*scores.shape[:2], *index.shape[-2:]))

    def values(self, weights: Tensor, at: Tensor) -> Tensor:
        index = self._index(at, weights.shape[-1])
        by_distance = weights.new_zeros(*weights.shape[:3], len(self.shifts))
        by_distance = by_distance.scatter_add(-1, index.expand_as(weights), weights)
        return by_distance @ self.shifts


def attention_positions(
    name: PositionName, heads: int, qk_width: int, v_width: int, *, causal: bool, scaled: bool, clip: int
) -> AttentionPositions:
    """Return the position encoding with that name for one attention layer."""
    require_known("position kind", name, get_args(PositionName))
    if name == "relative":
        return Relative(qk_width, v_width, clip=clip, scaled=scaled)
    if name == "rotary":
        return Rotary()
    if name == "alibi":
        return Alibi(heads)
    if name == "kerple":
        return Kerple(heads)
    return T5Buckets(heads, causal=causal) if name == "t5" else AttentionPositions()
