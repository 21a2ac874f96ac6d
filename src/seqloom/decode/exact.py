"""Exact search from a known output: the best of all outputs, or the best one found within a limit."""

from __future__ import annotations

import math

from seqloom.decode.options import BeamOptions
from seqloom.decode.pruned_model import PrunedModel, floor_to_win
from seqloom.decode.reference import Optimum, branch_and_bound
from seqloom.types import Batch, StepModel


def improve(
    model: StepModel, sentence: Batch, options: BeamOptions, *, max_length: int, above: float, limit: int
) -> Optimum:
    """Return the best output of one sentence that scores higher than `above`, the score of a finished output.

    Tokens that cannot lead to a higher score are left out of the search. With `above` = -inf, there is no
    known output.
    """
    if above > -math.inf:
        model = PrunedModel(model, floor=floor_to_win(options.ranking, above, max_length))
    return branch_and_bound(
        model,
        sentence,
        max_length=max_length,
        ranking=options.ranking,
        rules=options.rules,
        above=above,
        limit=limit,
    )
