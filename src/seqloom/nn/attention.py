"""Attention: a weighted sum of values, the weights decided by how well a query fits each key."""

from __future__ import annotations

import math

from torch import Tensor


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
