"""The mask that a formula of the notes prints hides the diagonal: the first position has no key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import Field

from seqloom.inspect.picture import BLUE, VERMILLION, Style
from seqloom.labs.framework.lab import (
    LECTURE_9,
    Exercise,
    Judgement,
    Lab,
    Note,
    Numbers,
    NumberTable,
    Variation,
    Verdict,
)
from seqloom.nn.attention import attend, dot_scores
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUM_TOLERANCE = 1e-5


class StrictMaskSettings(Settings):
    length: int = Field(8, ge=2, description="positions")
    width: int = Field(16, ge=1, description="width of queries and keys")
    hidden_from: int = Field(0, ge=-1, description="0: keys j ≥ i are hidden, as printed; -1: keys j > i")
    seed: int = Field(1, description="seed of queries and keys")


class StrictMaskNumbers(Numbers):
    sums: list[float]  # of the weights of each position; 0 if they are not defined
    undefined: list[int]  # positions whose weights are not numbers, from 1


class StrictMask(Lab[StrictMaskSettings, StrictMaskNumbers]):
    name = "strict-mask"
    claim = "The future is masked by setting the scores of all keys j ≥ i to −∞"
    note = Note(LECTURE_9, "Issue: Need to ensure we don’t “look at the future”")
    equation = (
        r"e_{ij} = q_i^\top k_j\ \ \mathrm{if}\ \ j < i,\qquad e_{ij} = -\infty\ \ \mathrm{if}\ \ j \geq i"
    )
    method = (
        "Apply attention with the mask as printed to random queries and keys, and add up the weights of each "
        "position: the softmax should give 1."
    )
    criterion = (
        "holds: the weights of every position sum to 1. Holds in part: of every position but the first. "
        "Otherwise, or if the weights of a position are not defined, it does not hold here."
    )
    explanation = (
        "The first position has no key with j < 1, so all its scores are −∞ and the softmax divides 0 by 0: "
        "the result is not a number, and it spreads to all weights of the model with the first gradient. A "
        "decoder predicts token i + 1 at position i, whose input is token i, so position i may read keys j ≤ "
        "i. The inequalities are meant as j ≤ i and j > i; the lab mask tests that version."
    )
    variations = (
        Variation("hidden_from=-1", "The corrected formula: which verdict do you expect?"),
        Variation("length=2", "The shortest sequence: which position is affected?"),
    )
    exercise = Exercise(
        "With the printed mask, what does the output of position 2 depend on, and what is lost in comparison "
        "with the corrected one?",
        "Only on the value of position 1, with weight 1. Its own token is missing from the average; a "
        "residual connection would still pass it on.",
    )
    seconds = 1
    settings = StrictMaskSettings
    numbers = StrictMaskNumbers

    def run(self, settings: StrictMaskSettings) -> StrictMaskNumbers:
        random = torch.Generator().manual_seed(settings.seed)
        queries, keys = torch.randn(2, settings.length, settings.width, generator=random)
        positions = torch.arange(settings.length)
        mask = positions < positions.unsqueeze(1) - settings.hidden_from
        sums = attend(dot_scores(queries, keys), keys, mask)[1].sum(dim=1)
        undefined = (sums.isnan().nonzero().flatten() + 1).tolist()
        return StrictMaskNumbers(sums=sums.nan_to_num(nan=0.0).tolist(), undefined=undefined)

    def judge(self, numbers: StrictMaskNumbers) -> Judgement:
        correct = [abs(one - 1) < _SUM_TOLERANCE for one in numbers.sums]
        if numbers.undefined:
            places = ", ".join(map(str, numbers.undefined))
            return Judgement(Verdict.NOT_HERE, f"The weights are not defined at position {places}.")
        reason = f"The weights of {sum(correct)} of {len(correct)} positions sum to 1."
        if all(correct):
            return Judgement(Verdict.HOLDS, reason)
        return Judgement(Verdict.IN_PART if all(correct[1:]) else Verdict.NOT_HERE, reason)

    def table(self, numbers: StrictMaskNumbers) -> NumberTable:
        rows = [
            (str(place), "not a number" if place in numbers.undefined else f"{one:.4f}")
            for place, one in enumerate(numbers.sums, 1)
        ]
        return NumberTable(("position", "sum of the weights"), rows)

    def draw(self, numbers: StrictMaskNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        places = list(range(1, len(numbers.sums) + 1))
        panel.bar(places, numbers.sums, color=BLUE)
        for place in numbers.undefined:
            panel.text(place, 0.05, "not a\nnumber", color=VERMILLION, ha="center", va="bottom")
        panel.set_xticks(places)
        panel.set_xlabel("position")
        panel.set_ylabel("sum of the attention weights")


LAB = StrictMask()
