"""Attention: a weighted sum of values, the weights decided by how well a query fits each key."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

KeysValues = tuple[Tensor, Tensor]  # each (B, H, S, D/H)


def attend(
    scores: Tensor, values: Tensor, mask: Tensor | None = None, *, factor: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Context and weights: α = softmax(scores), context = Σ α v; a masked key gets weight zero.

    scores (..., T, S), values (..., S, D), mask broadcastable to the scores, True = may be looked at; a
    factor (..., T, S) scales the weights afterwards, as local attention does.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)  # (..., T, S)
    if factor is not None:
        weights = weights * factor
    return weights @ values, weights


def dot_scores(queries: Tensor, keys: Tensor, *, scaled: bool = True) -> Tensor:
    """(..., T, S): q·k, divided by √d so that the softmax does not saturate as d grows."""
    scores = queries @ keys.transpose(-2, -1)
    return scores / math.sqrt(queries.shape[-1]) if scaled else scores


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, D) as (B, H, T, D/H)."""
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """(B, H, T, D/H) as (B, T, D)."""
    return x.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Every position attends to the positions of its own sequence; one matrix gives q, k and v."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """(B, T, D) from (B, T, D). mask (B, T): which positions are real."""
        q, k, v = (split_heads(part, self.heads) for part in self.query_key_value(x).chunk(3, dim=-1))
        allowed = None if mask is None else mask[:, None, None, :]  # (B, 1, 1, T)
        context = scaled_dot_product_attention(q, k, v, attn_mask=allowed, is_causal=causal)
        return self.output(join_heads(context))

    def step(self, x: Tensor, past: KeysValues | None) -> tuple[Tensor, KeysValues]:
        """The newest position alone: (R, 1, D) and the keys and values so far, itself included."""
        q, k, v = (split_heads(part, self.heads) for part in self.query_key_value(x).chunk(3, dim=-1))
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        context, _ = attend(dot_scores(q, k), v)
        return self.output(join_heads(context)), (k, v)


class CrossAttention(nn.Module):
    """Target positions attend to the source, whose keys and values are computed once."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def remember(self, source: Tensor) -> KeysValues:
        """Keys and values (B, H, S, D/H) of the encoded source (B, S, D)."""
        k, v = (split_heads(part, self.heads) for part in self.key_value(source).chunk(2, dim=-1))
        return k, v

    def forward(self, x: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        """(B, T, D) from (B, T, D). mask (B, S): which source positions are real."""
        q = split_heads(self.query(x), self.heads)
        context = scaled_dot_product_attention(q, *memory, attn_mask=mask[:, None, None, :])
        return self.output(join_heads(context))

    def step(self, x: Tensor, memory: KeysValues, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Output (R, 1, D) and weights (R, H, S) of one position per row.

        The K rows of a sentence become K queries to its one memory, which so is read once, not K times.
        """
        keys, values = memory
        q = split_heads(self.query(x).view(keys.shape[0], -1, x.shape[-1]), self.heads)  # (B, H, K, D/H)
        context, weights = attend(dot_scores(q, keys), values, mask[:, None, None, :])
        return self.output(join_heads(context)).view(x.shape), weights.transpose(1, 2).flatten(0, 1)
