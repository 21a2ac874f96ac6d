"""Source context of a recurrent decoder at every step: the mean of the encoder states, or attention."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from seqloom.errors import require_known
from seqloom.nn.attention import WeightsName, attend
from seqloom.nn.scores import ScoreName, make_score
from seqloom.types import Tree

Window = Literal["none", "monotonic", "predictive"]


class MeanContext(nn.Module):
    """Mean of the encoder states, the same at every step: attention with uniform weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def build_memory(self, encoded: Tensor, mask: Tensor) -> Tree:
        return encoded, encoded, mask

    def forward(
        self, queries: Tensor, memory: Tree, positions: Tensor | None, coverage: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return context (B, T, D) and weights (B, T, S), the same for every query."""
        _, values, mask = memory
        scores = values.new_zeros(values.shape[0], queries.shape[1], values.shape[1])
        return attend(scores, values, mask.unsqueeze(1))


class AttentionContext(nn.Module):
    """Attention a = Σ α v with α = softmax(score(q, k)); keys and values are computed once per sentence.

    With `weights=raw`, α is the score itself.

    Without projections, the encoder states are keys and values and the decoder state is the query; with them
    q = W_q s, k = W_k h, v = W_v h. A window (Luong et al. 2015) restricts a query to 2 w + 1 positions:
    `monotonic` around its own position, `predictive` around p = (S - 1) sigmoid(vᵀ tanh(W q)). There, the
    weights are also scaled by a Gaussian around p with deviation w / 2, through which p gets a gradient.
    """

    def __init__(
        self,
        query_width: int,
        key_width: int,
        *,
        score: ScoreName,
        attention_width: int,
        projected: bool,
        window: Window,
        window_size: int,
        coverage: bool,
        weights: WeightsName = "softmax",
    ) -> None:
        super().__init__()
        require_known("window", window, get_args(Window))
        self.width = attention_width if projected else key_width
        self.query = nn.Linear(query_width, self.width, bias=False) if projected else nn.Identity()
        self.key = nn.Linear(key_width, self.width, bias=False) if projected else nn.Identity()
        self.value = nn.Linear(key_width, self.width, bias=False) if projected else nn.Identity()
        query_width = self.width if projected else query_width
        self.score = make_score(score, query_width, self.width, attention_width, coverage=coverage)
        self.weights: WeightsName = weights
        self.window, self.window_size = window, window_size
        if window == "predictive":
            self.centre_inner = nn.Linear(query_width, self.width, bias=False)
            self.centre_value = nn.Linear(self.width, 1, bias=False)

    def build_memory(self, encoded: Tensor, mask: Tensor) -> Tree:
        """Return keys (B, S, ·), values (B, S, D) and mask (B, S) of an encoded source."""
        return self.score.project_keys(self.key(encoded)), self.value(encoded), mask

    def forward(
        self, queries: Tensor, memory: Tree, positions: Tensor | None, coverage: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return context (B, T, D) and weights (B, T, S) for queries (B, T, D) at target positions (B, T)."""
        keys, values, mask = memory
        queries = self.query(queries)
        scores = self.score(queries, keys, coverage)
        if self.window == "none":
            return attend(scores, values, mask.unsqueeze(1), weights=self.weights)
        centre = self._centre(queries, mask, positions).unsqueeze(-1)  # (B, T, 1)
        distance = torch.arange(mask.shape[1], device=mask.device) - centre  # (B, T, S)
        allowed = mask.unsqueeze(1) & (distance.abs() <= self.window_size)
        if self.window == "monotonic":
            return attend(scores, values, allowed, weights=self.weights)
        factor = self._gaussian(distance).to(scores.dtype)
        return attend(scores, values, allowed, factor=factor, weights=self.weights)

    def _gaussian(self, distance: Tensor) -> Tensor:
        """Return exp(-d² / 2σ²) with σ = w / 2."""
        return (-2 * (distance / self.window_size) ** 2).exp()

    def _centre(self, queries: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor:
        """Return the source position (B, T) at the centre of each query's window, at most the last token."""
        last = mask.sum(dim=1, keepdim=True) - 1  # (B, 1)
        if self.window == "monotonic":
            assert positions is not None
            return torch.minimum(positions, last)
        fraction = self.centre_value(self.centre_inner(queries).tanh()).squeeze(-1).sigmoid()
        # bfloat16 represents integers only up to 256, so positions are computed in single precision at least.
        return fraction.to(torch.promote_types(fraction.dtype, torch.float32)) * last
