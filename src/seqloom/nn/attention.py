"""Attention: a sum of values, weighted by the scores of a query against each key."""

from __future__ import annotations

import math
from typing import Literal, get_args

from torch import Tensor

from seqloom.errors import require_known

WeightsName = Literal["softmax", "raw"]


def attend(
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    factor: Tensor | None = None,
    weights: WeightsName = "softmax",
) -> tuple[Tensor, Tensor]:
    """Return context and weights: α = softmax(scores), context = Σ α v; a masked key gets weight zero.

    Raw weights are the scores themselves: they may be negative, do not sum to 1 and grow with the vectors.

    scores (..., T, S), values (..., S, D); the mask is broadcastable to the scores, True = may be attended to.
    `factor` (..., T, S) scales the weights after the softmax, for local attention.
    """
    require_known("kind of attention weights", weights, get_args(WeightsName))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf if weights == "softmax" else 0.0)
    alpha = scores.softmax(dim=-1) if weights == "softmax" else scores  # (..., T, S)
    if factor is not None:
        alpha = alpha * factor
    return alpha @ values, alpha


def dot_scores(queries: Tensor, keys: Tensor, *, scaled: bool = True) -> Tensor:
    """Return q·k (..., T, S), divided by √d so that the softmax does not saturate as d grows."""
    scores = queries @ keys.transpose(-2, -1)
    return scores / math.sqrt(queries.shape[-1]) if scaled else scores
