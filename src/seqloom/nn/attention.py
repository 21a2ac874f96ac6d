"""Attention: a sum of values, weighted by the scores of a query against each key."""

from __future__ import annotations

import math

from torch import Tensor


def attend(
    scores: Tensor, values: Tensor, mask: Tensor | None = None, *, factor: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return context and weights: α = softmax(scores), context = Σ α v; a masked key gets weight zero.

    scores (..., T, S), values (..., S, D); the mask is broadcastable to the scores, True = may be attended to.
    `factor` (..., T, S) scales the weights after the softmax, for local attention.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)  # (..., T, S)
    if factor is not None:
        weights = weights * factor
    return weights @ values, weights


def dot_scores(queries: Tensor, keys: Tensor, *, scaled: bool = True) -> Tensor:
    """Return q·k (..., T, S), divided by √d so that the softmax does not saturate as d grows."""
    scores = queries @ keys.transpose(-2, -1)
    return scores / math.sqrt(queries.shape[-1]) if scaled else scores
