"""What hypotheses are ranked by: their log-probability, and what is done against its love of short answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from seqloom.decode.config import Norm


@dataclass(frozen=True, slots=True)
class Ranking:
    """score(y) = (log P(y|x) + reward · |y|) / norm(|y|) + coverage · cp(x, y), where |y| counts the end.

    norm: 1 (none), |y|^α (length), or ((5 + |y|) / 6)^α (gnmt: Wu et al. 2016, equation 14), and
    cp = Σ_i log min(Σ_t a_ti, 1) over the source tokens i: each that was looked at less than once in all
    costs something (equation 14, too). The reward adds the same for every token (He et al. 2016).
    """

    norm: Norm = "length"
    alpha: float = 1.0
    reward: float = 0.0
    coverage: float = 0.0

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


def uncovered(attention: Tensor, source_tokens: int) -> float:
    """cp of the weights (T, S) of a hypothesis on a source of so many tokens."""
    seen = attention[:, :source_tokens].double().sum(dim=0).clamp(1e-10, 1.0)  # never seen: large, not infinite
    return float(seen.log().sum())
