"""Pooling of encoder states: weights over source positions, one row per output.

The vectors are A h, with weights A (B, N, S) and states h (B, S, D). Every row of A is a distribution over the
real positions of its source.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from seqloom.errors import require_known
from seqloom.types import Batch, WordStarts

PoolingName = Literal["last", "mean", "attention"]


class WeightedSum(nn.Module):
    """The product A h."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, weights: Tensor, states: Tensor) -> Tensor:
        """Return the vectors (B, N, D) of weights (B, N, S) and states (B, S, D)."""
        return weights @ states


class SequencePooling(nn.Module):
    """One row per source: last position, mean, or attention α = softmax(vᵀ tanh(W h)) (Yang et al. 2016)."""

    def __init__(self, kind: PoolingName, width: int) -> None:
        super().__init__()
        require_known("pooling", kind, get_args(PoolingName))
        self.kind = kind
        self.score = (
            nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1, bias=False))
            if kind == "attention"
            else None
        )

    def forward(self, states: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the weights (B, 1, S) and the number of outputs, which is 1, (B,)."""
        mask, count = batch.source_mask, torch.ones_like(batch.source_lengths)
        if self.kind == "last":
            return last_position(batch, states.dtype), count
        scores = states.new_zeros(mask.shape) if self.score is None else self.score(states).squeeze(-1)
        return scores.masked_fill(~mask, -torch.inf).softmax(-1).unsqueeze(1), count


class WordPooling(nn.Module):
    """One row per word: the mean over its tokens. Without `starts`, every token is a word."""

    is_start: Tensor

    def __init__(self, starts: WordStarts | None, vocabulary: int) -> None:
        super().__init__()
        self.marks = () if starts is None else starts.spelled
        is_start = torch.full((vocabulary,), starts is None)
        if starts is not None and starts.ids:
            is_start[list(starts.ids)] = True
        self.register_buffer("is_start", is_start, persistent=False)

    def words(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the number of the word of each token (B, S), and the number of words (B,).

        The end of the source is not part of a word.
        """
        begins = self.is_start[batch.source]
        if self.marks:  # an unknown word is spelled in bytes, and its mark takes several
            begins = begins | _begins_with(batch.source, self.marks)
        begins[:, 0] = True
        words, ends = begins.cumsum(1) - 1, batch.source_lengths - 1
        last = words.gather(1, (ends - 1).clamp_min(0).unsqueeze(1)).squeeze(1)
        return words, torch.where(ends > 0, last + 1, 0)

    def forward(self, states: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the weights (B, N, S) and the number of words, (B,)."""
        words, count = self.words(batch)
        positions = torch.arange(batch.source.shape[1], device=words.device)
        inside = positions < (batch.source_lengths - 1).unsqueeze(1)
        numbers = torch.arange(int(count.max()), device=words.device)
        member = (words.unsqueeze(1) == numbers[:, None]) & inside.unsqueeze(1)  # (B, N, S)
        return member.to(states.dtype) / member.sum(-1, keepdim=True).clamp_min(1), count


def last_position(batch: Batch, dtype: torch.dtype) -> Tensor:
    """Return weights (B, 1, S) with 1 at the last position of each source."""
    positions = torch.arange(batch.source.shape[1], device=batch.source_lengths.device)
    return (positions == batch.source_lengths.unsqueeze(1) - 1).to(dtype).unsqueeze(1)


def _begins_with(ids: Tensor, marks: tuple[int, ...]) -> Tensor:
    """Return a mask (B, S) of the positions where the ids continue like the marks."""
    found = torch.ones_like(ids, dtype=torch.bool)
    for shift, mark in enumerate(marks):
        found[:, : ids.shape[1] - shift] &= ids[:, shift:] == mark
        found[:, ids.shape[1] - shift :] = False
    return found
