"""Attention scores of a query against a key, with one interface for all.

A score projects the keys of a sentence once (`project_keys`), then takes any number of queries. With coverage,
c_j is the total weight of key j so far, which may raise or lower its score (Tu et al. 2016).
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from seqloom.errors import SeqloomError, require_known
from seqloom.nn.attention import dot_scores

ScoreName = Literal["dot", "scaled-dot", "bilinear", "additive", "feed-forward"]


class ProductScore(nn.Module):
    """Dot-product scores: e = q·k, q·k / √d, or bilinear qᵀ W k (Luong et al. 2015)."""

    def __init__(
        self,
        query_width: int,
        key_width: int,
        *,
        scaled: bool = False,
        bilinear: bool = False,
        coverage: bool = False,
    ) -> None:
        super().__init__()
        self.scaled = scaled
        self.matrix = nn.Linear(query_width, key_width, bias=False) if bilinear else None
        self.coverage = _coverage_vector(key_width) if coverage else None

    def project_keys(self, keys: Tensor) -> Tensor:
        return keys

    def forward(self, queries: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        """Return (B, T, S) for queries (B, T, D), keys (B, S, D) and coverage (B, T, S)."""
        if self.matrix is not None:
            queries = self.matrix(queries)
        scores = dot_scores(queries, keys, scaled=self.scaled)
        if self.coverage is None or coverage is None:
            return scores
        # Equivalent to keys k_j + c_j w.
        return scores + coverage * dot_scores(queries, self.coverage.unsqueeze(0), scaled=self.scaled)


class PerceptronScore(nn.Module):
    """Perceptron scores: e = vᵀ σ(W₁ k + W₂ q), with a hidden layer of width d₃.

    Additive attention (Bahdanau et al. 2015) has σ = tanh and no bias. The feed-forward score is a relu layer
    with bias over the concatenation, vᵀ relu(W [k; q] + b), where W [k; q] = W₁ k + W₂ q.
    """

    def __init__(
        self, query_width: int, key_width: int, width: int, *, feed_forward: bool, coverage: bool = False
    ) -> None:
        super().__init__()
        self.relu = feed_forward
        self.key = nn.Linear(key_width, width, bias=feed_forward)
        self.query = nn.Linear(query_width, width, bias=False)
        self.value = nn.Linear(width, 1, bias=False)  # the v of the equation
        self.coverage = _coverage_vector(width) if coverage else None

    def project_keys(self, keys: Tensor) -> Tensor:
        """Return W₁ k (+ b), (B, S, d₃), which is the same for every query."""
        return self.key(keys)

    def forward(self, queries: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        """Return (B, T, S) for queries (B, T, D), projected keys (B, S, d₃) and coverage (B, T, S)."""
        inner = keys.unsqueeze(1) + self.query(queries).unsqueeze(2)  # (B, T, S, d₃)
        if self.coverage is not None and coverage is not None:
            inner = inner + coverage.unsqueeze(-1) * self.coverage
        return self.value(inner.relu() if self.relu else inner.tanh()).squeeze(-1)


def _coverage_vector(width: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(width) * width**-0.5)


def make_score(
    name: ScoreName, query_width: int, key_width: int, width: int, *, coverage: bool
) -> ProductScore | PerceptronScore:
    """Return the score with that name; `width` is d₃ of perceptron scores. q·k needs equal widths."""
    require_known("score", name, get_args(ScoreName))
    if name in ("additive", "feed-forward"):
        return PerceptronScore(
            query_width, key_width, width, feed_forward=name == "feed-forward", coverage=coverage
        )
    if name != "bilinear" and query_width != key_width:
        raise SeqloomError(
            f"The score {name} needs queries and keys of the same width, got {query_width} and {key_width}.",
            "use equal widths, or the score bilinear or additive",
        )
    return ProductScore(
        query_width, key_width, scaled=name == "scaled-dot", bilinear=name == "bilinear", coverage=coverage
    )
