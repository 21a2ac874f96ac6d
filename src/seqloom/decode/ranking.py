"""Ranking of hypotheses: length and coverage corrections to the log-probability."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

from torch import Tensor

from seqloom.decode.config import Norm, SearchConfig
from seqloom.errors import SeqloomError, unknown
from seqloom.types import Head, Step

_DEFAULTS = SearchConfig.model_validate({})


@dataclass(frozen=True, slots=True)
class Ranking:
    """score(y) = (log P(y|x) + reward · |y|) / norm(|y|) + coverage · cp(x, y), where |y| includes the end.

    norm: 1 (none), |y|^α (length), or ((5 + |y|) / 6)^α (gnmt: Wu et al. 2016, equation 14), and
    cp = Σ_i log min(Σ_t a_ti, 1) over the source tokens i: a penalty for each token whose attention sums to
    less than 1 (also equation 14). The reward is the same for each target token (He et al. 2016).
    """

    norm: Norm = _DEFAULTS.length_norm
    alpha: float = _DEFAULTS.length_penalty
    reward: float = _DEFAULTS.word_reward
    coverage: float = _DEFAULTS.coverage_penalty

    def __post_init__(self) -> None:
        if self.norm not in get_args(Norm):
            raise unknown("length norm", self.norm, get_args(Norm))

    @property
    def needs_attention(self) -> bool:
        return self.coverage > 0

    def divisor(self, length: int) -> float:
        """Return norm(|y|)."""
        if self.norm == "none":
            return 1.0
        return math.pow(length if self.norm == "length" else (5 + length) / 6, self.alpha)

    def score(self, log_prob: float, length: int, uncovered: float = 0.0) -> float:
        """Return the score of a hypothesis of this length, including the end; `uncovered` is cp."""
        return (log_prob + self.reward * length) / self.divisor(length) + self.coverage * uncovered

    def bound(self, log_prob: float, length: int, longest: int) -> float:
        """Return an upper bound on the score of all continuations of an open hypothesis of this length.

        The log-probability can only decrease and cp ≤ 0, so the bound is a maximum over lengths.
        """
        return max(self.score(log_prob, total) for total in range(length + 1, max(longest, length + 1) + 1))


def uncovered(coverage: Tensor, source_length: int) -> float:
    """Return cp, given the summed attention Σ_t a_ti (S) to a source of this length."""
    clamped = coverage[:source_length].clamp(1e-10, 1.0)  # finite for a token without any attention
    return float(clamped.log().sum())


def attention_of(step: Step, head: Head | None, feature: str) -> Tensor:
    """Return the attention (R, S) of one head or the mean of all heads; raise if the model has none."""
    attention = step.alignment(head)
    if attention is None:
        raise no_attention(feature)
    return attention


def no_attention(feature: str) -> SeqloomError:
    """Return the error for an option that needs attention from a model that has none."""
    return SeqloomError(
        f"{feature} needs a model with attention, but this model has none.",
        "use another model, e.g. lstm-additive or transformer, or leave the option out",
    )
