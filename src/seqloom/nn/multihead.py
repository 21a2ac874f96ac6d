"""Multi-head attention; the width of queries and keys and the width of values are independent."""

from __future__ import annotations

from typing import TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from seqloom.nn.attention import WeightsName, attend, dot_scores
from seqloom.nn.kv_cache import KVCache, append
from seqloom.nn.masks import causal_mask, combine_mask_and_bias, combine_masks, padding_mask
from seqloom.nn.positions import AttentionPositions

KeysValues = tuple[Tensor, Tensor]  # (B, H, S, d_qk) and (B, H, S, d_v)


class HeadOptions(TypedDict, total=False):
    """Options of all multi-head attention."""

    scaled: bool  # divide scores by √d_qk
    bias: bool  # b in q = W x + b, and in keys, values and the output
    weights: WeightsName


class SelfAttentionOptions(HeadOptions, total=False):
    """Options of all self-attention."""

    positions: AttentionPositions | None


class AttentionHeads(nn.Module):
    """Base of multi-head attention: number and widths of the heads, and the weighted sum."""

    def __init__(
        self,
        heads: int,
        qk_width: int,
        v_width: int,
        *,
        scaled: bool = True,
        bias: bool = True,
        weights: WeightsName = "softmax",
    ) -> None:
        super().__init__()
        self.heads, self.qk_width, self.v_width, self.scaled = heads, qk_width, v_width, scaled
        self.bias, self.weights_kind = bias, weights

    def split(self, x: Tensor) -> Tensor:
        """Return (B, T, H d) as (B, H, T, d)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        """Return (B, H, T, d) as (B, T, H d)."""
        return x.transpose(1, 2).flatten(2)

    def fused(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False
    ) -> Tensor:
        """Return the context, computed by torch's fused kernel; the mask is boolean or a bias on the scores.

        The kernel has no raw weights; they are computed by `attend`, with a boolean mask.
        """
        if self.weights_kind == "raw":
            if causal:
                mask = combine_masks(mask, causal_mask(q.shape[2], k.shape[2], q.device))
            return self.attend(self.scores(q, k), v, mask)[0]
        scale = None if self.scaled else 1.0
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return dot_scores(q, k, scaled=self.scaled)

    def attend(self, scores: Tensor, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return context and weights."""
        return attend(scores, values, mask, weights=self.weights_kind)


class SelfAttention(AttentionHeads):
    """Self-attention; one matrix computes q, k and v."""

    def __init__(
        self,
        width: int,
        heads: int,
        qk_width: int,
        v_width: int,
        *,
        positions: AttentionPositions | None = None,
        **options: Unpack[HeadOptions],
    ) -> None:
        super().__init__(heads, qk_width, v_width, **options)
        self.query_key_value = nn.Linear(width, heads * (2 * qk_width + v_width), bias=self.bias)
        self.output = nn.Linear(heads * v_width, width, bias=self.bias)
        self.positions = positions or AttentionPositions()

    def _project(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        widths = [self.heads * width for width in (self.qk_width, self.qk_width, self.v_width)]
        q, k, v = (self.split(part) for part in self.query_key_value(x).split_with_sizes(widths, dim=-1))
        return self.positions.rotate(q, at), self.positions.rotate(k, at), v

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, at: Tensor | None = None
    ) -> Tensor:
        """Return (B, T, D) for x (B, T, D).

        mask (B, T): True on real positions; (B, 1, T, T): True where a query may attend to a key. `at` is the
        input of the position encoding; by default 0 … T-1.
        """
        length = x.shape[1]
        at = torch.arange(length, device=x.device) if at is None else at
        q, k, v = self._project(x, at)
        allowed = padding_mask(mask) if mask is not None and mask.dim() == 2 else mask
        bias = self.positions.bias(q, at, length)
        if bias is None:
            return self.output(self.join(self.fused(q, k, v, allowed, causal=causal)))
        if causal:
            allowed = combine_masks(allowed, causal_mask(length, length, x.device))
        if not self.positions.needs_weights:
            return self.output(self.join(self.fused(q, k, v, combine_mask_and_bias(allowed, bias))))
        context, weights = self.attend(self.scores(q, k) + bias, v, allowed)
        return self.output(self.join(self._add_position_values(context, weights, at)))

    def visibility(self, real: Tensor, *, causal: bool = False) -> Tensor:
        """Return a `Visibility` code for every query and key, (B, T, T). real (B, T): True on real tokens."""
        pairs = real.unsqueeze(1).expand(-1, real.shape[1], -1).long()
        return pairs.tril() if causal else pairs

    def weights(
        self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, at: Tensor | None = None
    ) -> Tensor:
        """Return the weights (B, H, T, T) that `forward` applies to the values, for the same arguments."""
        length = x.shape[1]
        if mask is None or mask.dim() == 2:
            real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
            mask = self.visibility(real, causal=causal).unsqueeze(1) > 0
        at = torch.arange(length, device=x.device) if at is None else at
        q, k, v = self._project(x, at)
        bias = self.positions.bias(q, at, length)
        scores = self.scores(q, k)
        return self.attend(scores if bias is None else scores + bias, v, mask)[1]

    def step(self, x: Tensor, past: KVCache | None, at: Tensor) -> tuple[Tensor, KVCache]:
        """Compute one position per row: output (R, 1, D), and the cache extended by this position."""
        q, k, v = self._project(x, at)
        past = append(past, k, v)
        scores, bias = self.scores(q, past.keys), self.positions.bias(q, at, past.length)
        context, weights = self.attend(scores if bias is None else scores + bias, past.values)
        return self.output(self.join(self._add_position_values(context, weights, at))), past

    def _add_position_values(self, context: Tensor, weights: Tensor, at: Tensor) -> Tensor:
        """Return the context plus what the position encoding adds to the values."""
        extra = self.positions.values(weights, at)
        return context if extra is None else context + extra


class CrossAttention(AttentionHeads):
    """Attention from target positions to the source, whose keys and values are computed once.

    Positions in two languages have no common scale, so no position encoding is used here.
    """

    def __init__(
        self, width: int, heads: int, qk_width: int, v_width: int, **options: Unpack[HeadOptions]
    ) -> None:
        super().__init__(heads, qk_width, v_width, **options)
        self.query = nn.Linear(width, heads * qk_width, bias=self.bias)
        self.key_value = nn.Linear(width, heads * (qk_width + v_width), bias=self.bias)
        self.output = nn.Linear(heads * v_width, width, bias=self.bias)

    def project_kv(self, source: Tensor) -> KeysValues:
        """Return keys (B, H, S, d_qk) and values (B, H, S, d_v) of the encoded source (B, S, D)."""
        widths = [self.heads * self.qk_width, self.heads * self.v_width]
        k, v = (self.split(part) for part in self.key_value(source).split_with_sizes(widths, dim=-1))
        return k, v

    def project_kv_contiguous(self, source: Tensor) -> KeysValues:
        """Return the same in contiguous memory, as both are read at every decoding step."""
        k, v = self.project_kv(source)
        return k.contiguous(), v.contiguous()

    def forward(self, x: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        """Return (B, T, D) for x (B, T, D). mask (B, S): True on real source positions."""
        return self.output(self.join(self.fused(self.split(self.query(x)), *memory, padding_mask(mask))))

    def step(self, x: Tensor, memory: KeysValues, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return output (R, 1, D) and weights (R, H, S) of one position per row.

        The K rows of a sentence become K queries to its memory, which is then read once, not K times.
        """
        keys, values = memory
        q = self.split(self.query(x).view(keys.shape[0], -1, self.heads * self.qk_width))  # (B, H, K, d)
        context, weights = self.attend(self.scores(q, keys), values, padding_mask(mask))
        return self.output(self.join(context)).view(x.shape), weights.transpose(1, 2).flatten(0, 1)
