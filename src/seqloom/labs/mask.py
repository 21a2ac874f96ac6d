"""Without the causal mask, a decoder reads the tokens that it has to predict."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field

from seqloom.errors import SeqloomError
from seqloom.inspect.picture import BLUE, VERMILLION, Style
from seqloom.labs.framework.lab import (
    SELF_ATTENTION,
    Exercise,
    Judgement,
    Lab,
    Note,
    Numbers,
    NumberTable,
    Variation,
    Verdict,
)
from seqloom.labs.framework.models import MaskedDecoder
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EQUAL, _UNEQUAL = 1e-5, 1e-3  # largest change of a logit


class MaskSettings(Settings):
    length: int = Field(12, ge=2, description="tokens in the sequence")
    changed: int = Field(7, ge=2, description="token that is replaced, from 1")
    layers: int = Field(2, ge=1, description="decoder layers")
    width: int = Field(64, ge=8, multiple_of=4, description="width of the vectors")
    vocabulary: int = Field(50, ge=3, description="number of different tokens")
    seed: int = Field(1, description="seed of weights and tokens")


class MaskNumbers(Numbers):
    changed: int  # position of the replaced token, from 1
    masked: list[float]  # largest change of a logit at each position, with the causal mask
    unmasked: list[float]


class Mask(Lab[MaskSettings, MaskNumbers]):
    name = "mask"
    claim = "Without the causal mask, predictions depend on future tokens"
    note = Note(SELF_ATTENTION, "Problem 3: looking into the future")
    equation = (
        r"e_{ij} = q_i^\top k_j\ \ \mathrm{if}\ \ j \leq i,\qquad e_{ij} = -\infty\ \ \mathrm{if}\ \ j > i"
    )
    method = (
        "Run an untrained Transformer decoder over a sequence, replace the token at one position t, and run "
        "it again. Compare the logits at all positions, with the causal mask and without a mask."
    )
    criterion = (
        "holds: with the mask, no logit before t changes (below 10⁻⁵) and those from t on do; without the "
        "mask, all positions change (above 10⁻³). Holds in part: without the mask only some positions before "
        "t change. Otherwise it does not hold here."
    )
    explanation = (
        "Each position attends to all keys that the mask leaves, and the replaced token is one of them. In "
        "training, the input at position i + 1 is the token that position i has to predict, so a decoder "
        "without the mask reads the answer, and at test time the answer is not there. The mask must leave the "
        "diagonal: with the formula e = −∞ for j ≥ i, as Lecture 9 prints it, the first position has no key "
        "(see strict-mask)."
    )
    variations = (
        Variation("changed=2", "Which positions may change now?"),
        Variation("layers=6", "Does the future leak through more layers, if each layer has the mask?"),
        Variation("changed=12", "The last token: which positions change with the mask?"),
    )
    exercise = Exercise(
        "An encoder of a translation model has no causal mask. Why is this not an error?",
        "The whole source is given when translation starts, so no position of it is in the future. Only the "
        "target is generated from left to right.",
    )
    seconds = 1
    settings = MaskSettings
    numbers = MaskNumbers
    full: ClassVar[dict[str, object]] = {"length": 64, "changed": 32, "layers": 6, "width": 256}

    def run(self, settings: MaskSettings) -> MaskNumbers:
        if settings.changed > settings.length:
            raise SeqloomError(
                f"mask.changed={settings.changed} is after the last of {settings.length} tokens.",
                "choose a smaller position",
            )
        torch.manual_seed(settings.seed)
        decoder = MaskedDecoder(settings.vocabulary, width=settings.width, layers=settings.layers)
        before = torch.randint(settings.vocabulary, (1, settings.length))
        after = before.clone()
        after[0, settings.changed - 1] = (before[0, settings.changed - 1] + 1) % settings.vocabulary
        everything = torch.ones(1, 1, settings.length, settings.length, dtype=torch.bool)
        with torch.no_grad():
            masked, unmasked = (
                (decoder(after, mask) - decoder(before, mask)).abs().amax(dim=-1)[0].tolist()
                for mask in (None, everything)
            )
        return MaskNumbers(changed=settings.changed, masked=masked, unmasked=unmasked)

    def judge(self, numbers: MaskNumbers) -> Judgement:
        past = slice(numbers.changed - 1)
        kept, leaked = max(numbers.masked[past]), min(numbers.unmasked[past])
        seen = min(numbers.masked[numbers.changed - 1 :])
        reason = (
            f"Logits before the replaced token change by at most {kept:.1e} with the mask, and by at least "
            f"{leaked:.1e} without it."
        )
        if kept > _EQUAL or seen < _UNEQUAL or max(numbers.unmasked[past]) < _UNEQUAL:
            return Judgement(Verdict.NOT_HERE, reason)
        return Judgement(Verdict.HOLDS if leaked > _UNEQUAL else Verdict.IN_PART, reason)

    def table(self, numbers: MaskNumbers) -> NumberTable:
        rows = [
            (f"{place}{' (replaced)' if place == numbers.changed else ''}", f"{masked:.1e}", f"{unmasked:.1e}")
            for place, (masked, unmasked) in enumerate(zip(numbers.masked, numbers.unmasked, strict=True), 1)
        ]
        return NumberTable(("position", "change, causal mask", "change, no mask"), rows)

    def draw(self, numbers: MaskNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        for values, label, color, shift in (
            (numbers.masked, "causal mask", BLUE, -0.2),
            (numbers.unmasked, "no mask", VERMILLION, 0.2),
        ):
            places = [place + shift for place in range(1, len(values) + 1)]
            panel.bar(places, values, width=0.4, color=color, label=label)
        panel.axvline(numbers.changed - 0.5, color="0.4", ls="--", label="replaced token")
        panel.set_xticks(range(1, len(numbers.masked) + 1, max(1, len(numbers.masked) // 16)))
        panel.set_xlabel("position")
        panel.set_yscale("log", nonpositive="mask")
        panel.set_ylabel("largest change of a logit")
        panel.grid(axis="y")
        panel.legend()


LAB = Mask()
