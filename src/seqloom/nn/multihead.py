"""Multi-head attention: several queries, keys and values per position, each pair of widths its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from seqloom.nn.attention import attend, dot_scores
from seqloom.nn.kv_cache import KVCache, append
from seqloom.nn.masks import as_bias, causal_mask, joined, padding_mask
from seqloom.nn.positions import AttentionPositions

KeysValues = tuple[Tensor, Tensor]  # (B, H, S, d_qk) and (B, H, S, d_v)


class AttentionHeads(nn.Module):
    """Widths and number of the heads, and the weighted sum that all kinds of attention end in."""

    def __init__(self, heads: int, qk_width: int, v_width: int, *, scaled: bool) -> None:
        super().__init__()
        self.heads, self.qk_width, self.v_width, self.scaled = heads, qk_width, v_width, scaled

    def split(self, x: Tensor) -> Tensor:
        """(B, T, H d) as (B, H, T, d)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        """(B, H, T, d) as (B, T, H d)."""
        return x.transpose(1, 2).flatten(2)

    def fused(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False
    ) -> Tensor:
        """Context by torch's kernel: no weights are kept. The mask is boolean, or a bias on the scores."""
        scale = None if self.scaled else 1.0
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return dot_scores(q, k, scaled=self.scaled)


class SelfAttention(AttentionHeads):
    """Every position attends to the positions of its own sequence; one matrix gives q, k and v."""

    def __init__(
        self,
        width: int,
        heads: int,
        qk_width: int,
        v_width: int,
        *,
        scaled: bool = True,
        positions: AttentionPositions | None = None,
    ) -> None:
        super().__init__(heads, qk_width, v_width, scaled=scaled)
        self.query_key_value = nn.Linear(width, heads * (2 * qk_width + v_width))
        self.output = nn.Linear(heads * v_width, width)
        self.positions = positions or AttentionPositions()

    def _project(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        widths = [self.heads * width for width in (self.qk_width, self.qk_width, self.v_width)]
        q, k, v = (self.split(part) for part in self.query_key_value(x).split_with_sizes(widths, dim=-1))
        return self.positions.rotate(q, at), self.positions.rotate(k, at), v

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, at: Tensor | None = None
    ) -> Tensor:
        """(B, T, D) from (B, T, D). mask (B, T): which positions are real; (B, 1, T, T): who sees whom.

        `at` is what the positions go by, if that is not the order of the sequence.
        """
        length = x.shape[1]
        at = torch.arange(length, device=x.device) if at is None else at
        q, k, v = self._project(x, at)
        allowed = padding_mask(mask) if mask is not None and mask.dim() == 2 else mask
        bias = self.positions.bias(q, at, length)
        if bias is None:
            return self.output(self.join(self.fused(q, k, v, allowed, causal=causal)))
        if causal:
            allowed = joined(allowed, causal_mask(length, length, x.device))
        if not self.positions.needs_weights:
            return self.output(self.join(self.fused(q, k, v, as_bias(allowed, bias))))
        context, weights = attend(self.scores(q, k) + bias, v, allowed)
        return self.output(self.join(self._shifted(context, weights, at)))

    def step(self, x: Tensor, past: KVCache | None, at: Tensor) -> tuple[Tensor, KVCache]:
        """The newest position (R, 1) alone: (R, 1, D) and the keys and values so far, itself included."""
        q, k, v = self._project(x, at)
        past = append(past, k, v)
        scores, bias = self.scores(q, past.keys), self.positions.bias(q, at, past.length)
        context, weights = attend(scores if bias is None else scores + bias, past.values)
        return self.output(self.join(self._shifted(context, weights, at))), past

    def _shifted(self, context: Tensor, weights: Tensor, at: Tensor) -> Tensor:
        """The context with what the positions add to the values."""
        more = self.positions.values(weights, at)
        return context if more is None else context + more


class CrossAttention(AttentionHeads):
    """Target positions attend to the source, whose keys and values are computed once.

    Positions of two languages have no common scale, so none of the kinds of position acts here.
    """

    def __init__(self, width: int, heads: int, qk_width: int, v_width: int, *, scaled: bool = True) -> None:
        super().__init__(heads, qk_width, v_width, scaled=scaled)
        self.query = nn.Linear(width, heads * qk_width)
        self.key_value = nn.Linear(width, heads * (qk_width + v_width))
        self.output = nn.Linear(heads * v_width, width)

    def project_kv(self, source: Tensor) -> KeysValues:
        """Keys (B, H, S, d_qk) and values (B, H, S, d_v) of the encoded source (B, S, D)."""
        widths = [self.heads * self.qk_width, self.heads * self.v_width]
        k, v = (self.split(part) for part in self.key_value(source).split_with_sizes(widths, dim=-1))
        return k, v

    def keep(self, source: Tensor) -> KeysValues:
        """The same in one piece each: what is read again at every step had better not be put together there."""
        k, v = self.project_kv(source)
        return k.contiguous(), v.contiguous()

    def forward(self, x: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        """(B, T, D) from (B, T, D). mask (B, S): which source positions are real."""
        return self.output(self.join(self.fused(self.split(self.query(x)), *memory, padding_mask(mask))))

    def step(self, x: Tensor, memory: KeysValues, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Output (R, 1, D) and weights (R, H, S) of one position per row.

        The K rows of a sentence become K queries to its one memory, which so is read once, not K times.
        """
        keys, values = memory
        q = self.split(self.query(x).view(keys.shape[0], -1, self.heads * self.qk_width))  # (B, H, K, d)
        context, weights = attend(self.scores(q, keys), values, padding_mask(mask))
        return self.output(self.join(context)).view(x.shape), weights.transpose(1, 2).flatten(0, 1)
