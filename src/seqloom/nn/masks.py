"""Who may look at whom, in one place. True = may be looked at."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def padding_mask(real: Tensor) -> Tensor:
    """(B, 1, 1, S) from (B, S): no query of any head looks at padding."""
    return real[:, None, None, :]


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """(T, S): a query sees the keys up to its own place; the last query stands at the last key."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def prefix_mask(lengths: Tensor, width: int) -> Tensor:
    """(B, 1, T, T): all of a prefix sees all of it; behind it, a position sees what stands before it.

    A position of the prefix lies before every position behind it, so one rule serves both: a key may be
    looked at if it is in the prefix or not after the query.
    """
    in_prefix = torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)
    return padding_mask(in_prefix) | causal_mask(width, width, lengths.device)


def joined(*masks: Tensor | None) -> Tensor | None:
    """What all of the masks allow; None where nothing is forbidden."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    allowed = given[0]
    for mask in given[1:]:
        allowed = allowed & mask
    return allowed


def as_bias(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """One thing to add to the scores (B, H, T, S): the bias where looking is allowed, -∞ where not."""
    if bias is not None and bias.dim() == 3:
        bias = bias.unsqueeze(0)  # torch's fused kernel takes no other shape
    if bias is None or mask is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, -math.inf)
