"""A model that says only what can matter, so that the slow searches need not look at a whole vocabulary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from seqloom.decode.options import BeamOptions
from seqloom.decode.ranking import Ranking
from seqloom.types import Batch, Step, StepModel, Tree

_ROUNDING = 1e-4  # below what a token needs, lest a rounding error lose the very answer that set the mark


@dataclass(frozen=True)
class Likely(StepModel):
    """Leaves a step its `most` likeliest tokens, those of at least `floor`, and the tokens of a prefix."""

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
    """How many likeliest tokens of every hypothesis hold the first `ranks` continuations of its group.

    One that is among them has at most `ranks` - 1 better ones, apart from tokens that earlier groups made dear
    and those that the rules take out: padding, start and end, what is forbidden, what would be a repetition.
    """
    dear = plan.beam if plan.diversity else 0
    return ranks + dear + 3 + len(plan.rules.forbidden) + (longest if plan.rules.no_repeat else 0)


def floor_to_win(ranking: Ranking, score: float, longest: int) -> float:
    """The log P below which a single token rules out a better score than this one, whatever else is said.

    log P of an answer is at most that of each of its tokens, so (log p + reward · n) / norm(n) > score must
    hold for some length n.
    """
    needed = (score * ranking.divisor(n) - ranking.reward * n for n in range(1, longest + 1))
    return min(needed) - _ROUNDING
