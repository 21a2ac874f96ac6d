"""What hypotheses are ranked by: their log-probability, and what is done against its love of short answers."""

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
    """score(y) = (log P(y|x) + reward · |y|) / norm(|y|) + coverage · cp(x, y), where |y| counts the end.

    norm: 1 (none), |y|^α (length), or ((5 + |y|) / 6)^α (gnmt: Wu et al. 2016, equation 14), and
    cp = Σ_i log min(Σ_t a_ti, 1) over the source tokens i: each that was looked at less than once in all
    costs something (equation 14, too). The reward adds the same for every token (He et al. 2016).
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
        """norm(|y|)."""
        if self.norm == "none":
            return 1.0
        return math.pow(length if self.norm == "length" else (5 + length) / 6, self.alpha)

    def score(self, log_prob: float, length: int, uncovered: float = 0.0) -> float:
        """The score of a hypothesis of that length, the end included; `uncovered` is cp."""
        return (log_prob + self.reward * length) / self.divisor(length) + self.coverage * uncovered

    def bound(self, log_prob: float, length: int, longest: int) -> float:
        """What no continuation of an open hypothesis of that length can surpass.

        The log-probability can only fall and cp is never above 0, so only the length is left to choose.
        """
        return max(self.score(log_prob, total) for total in range(length + 1, max(longest, length + 1) + 1))


def uncovered(coverage: Tensor, source_length: int) -> float:
    """Return cp of Σ_t a_ti (S), what a hypothesis gave to every position of a source of that length."""
    seen = coverage[:source_length].clamp(1e-10, 1.0)  # a token never seen costs much, not infinitely much
    return float(seen.log().sum())


def attention_of(step: Step, head: Head | None, wanted_by: str) -> Tensor:
    """Return the attention (R, S) of one head, or the mean of all; a model without attention is an error."""
    attention = step.alignment(head)
    if attention is None:
        raise no_attention(wanted_by)
    return attention


def no_attention(wanted_by: str) -> SeqloomError:
    """Return the error for an option that needs attention from a model that has none."""
    return SeqloomError(
        f"{wanted_by} needs a model with attention, and this model has none.",
        "choose another model, e.g. lstm-additive or transformer, or leave the option out",
    )
