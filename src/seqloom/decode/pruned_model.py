"""A model restricted to the tokens that can affect a search, so that slow searches skip the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from seqloom.decode.options import BeamOptions
from seqloom.decode.ranking import Ranking
from seqloom.types import Batch, Step, StepModel, Tree

_ROUNDING = 1e-4  # tolerance, so that a rounding error does not exclude the best known output itself


@dataclass(frozen=True)
class PrunedModel(StepModel):
    """Model whose steps keep the `most` likely tokens with log P of at least `floor`, and those in `always`."""

    model: StepModel
    most: int | None = None
    floor: float = -math.inf
    always: Sequence[int] = ()

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        return self.model.start(batch)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        step = self.model.step(memory, state, last)
        log_probs = step.log_probs
        unlikely = log_probs < self.floor
        if self.most is not None and self.most < log_probs.shape[1]:
            unlikely |= log_probs < log_probs.topk(self.most, dim=1).values[:, -1:]
        unlikely[:, list(self.always)] = False
        return step._replace(log_probs=log_probs.masked_fill(unlikely, -math.inf))

    def max_target_length(self, source_length: int) -> int | None:
        return self.model.max_target_length(source_length)


def enough_to_rank(plan: BeamOptions, ranks: int, longest: int) -> int:
    """Return how many top tokens per hypothesis are enough to find the best `ranks` continuations of a group.

    A continuation among these has at most `ranks` - 1 better ones, apart from tokens penalised by the diversity
    of earlier groups and tokens excluded by rules: PAD, BOS, EOS, forbidden tokens and repetitions.
    """
    penalised = plan.beam if plan.diversity else 0
    return ranks + penalised + 3 + len(plan.rules.forbidden) + (longest if plan.rules.no_repeat else 0)


def floor_to_win(ranking: Ranking, score: float, longest: int) -> float:
    """Return the log P below which a single token rules out a score better than `score`.

    log P of an output is at most that of each of its tokens, so (log p + reward · n) / norm(n) > score must
    hold for some length n.
    """
    needed = (score * ranking.divisor(n) - ranking.reward * n for n in range(1, longest + 1))
    return min(needed) - _ROUNDING
