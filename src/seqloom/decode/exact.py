"""Exact search from a known output: the best of all outputs, or the best one found within a limit."""

from __future__ import annotations

import math
from typing import NamedTuple

from seqloom.decode.options import BeamOptions
from seqloom.decode.pruned_model import PrunedModel, floor_to_win
from seqloom.decode.reference import Optimum, branch_and_bound
from seqloom.types import Batch, StepModel


class Problem(NamedTuple):
    """Inputs of a search for one sentence."""

    model: StepModel
    sentence: Batch
    plan: BeamOptions
    max_length: int


def improve(problem: Problem, *, is_finished: bool, score: float, limit: int) -> Optimum:
    """Return the best output that is better than a known one; any finished output is better than a cut one.

    Tokens that cannot lead to a higher score are left out of the search.
    """
    model, sentence, plan, max_length = problem
    above = score if is_finished else -math.inf
    if is_finished:
        model = PrunedModel(model, floor=floor_to_win(plan.ranking, above, max_length))
    return branch_and_bound(
        model,
        sentence,
        max_length=max_length,
        ranking=plan.ranking,
        rules=plan.rules,
        above=above,
        limit=limit,
    )
