"""Attention masks. True = may be attended to."""

from __future__ import annotations

import math
from enum import IntEnum

import torch
from torch import Tensor


class Visibility(IntEnum):
    """Whether a query may attend to a key, and in block-sparse attention why."""

    HIDDEN = 0
    VISIBLE = 1  # in block-sparse attention: near
    GLOBAL = 2
    RANDOM = 3


def padding_mask(real: Tensor) -> Tensor:
    """Return (B, 1, 1, S) from (B, S): no query of any head attends to padding."""
    return real[:, None, None, :]


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """Return (T, S): a query attends to the keys up to its own position; the last query is at the last key."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def prefix_mask(lengths: Tensor, width: int) -> Tensor:
    """Return (B, 1, T, T): bidirectional attention inside a prefix, causal attention after it.

    The prefix precedes all other positions, so one rule covers both: a query may attend to a key that is in the
    prefix or not after the query.
    """
    in_prefix = torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)
    return padding_mask(in_prefix) | causal_mask(width, width, lengths.device)


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """Return the intersection of the masks, or None if all are None."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    allowed = given[0]
    for mask in given[1:]:
        allowed = allowed & mask
    return allowed


def combine_mask_and_bias(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Return a bias of the scores (B, H, T, S), -∞ where the mask is False; without a bias, the mask."""
    if bias is not None and bias.dim() == 3:
        bias = bias.unsqueeze(0)  # the shape that torch's fused kernel needs
    if bias is None or mask is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, -math.inf)
