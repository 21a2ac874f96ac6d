"""Pre-training on plain text replaces pairs that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from seqloom.inspect.picture import BLUE, ORANGE, VERMILLION, Style
from seqloom.labs.framework.lab import (
    LECTURE_7,
    Exercise,
    Judgement,
    Lab,
    Note,
    NumberTable,
    Variation,
    Verdict,
)
from seqloom.labs.framework.stored import StoredNumbers, StoredScore, measured
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GAIN = 5.0  # BLEU
_LABELS = {
    "random weights": VERMILLION,
    "pre-trained encoder": ORANGE,
    "pre-trained encoder\nand decoder": BLUE,
}


class PretrainingSettings(Settings):
    start: Literal["both", "encoder"] = Field(
        "both", description="what is judged: encoder and decoder pre-trained, or the encoder only"
    )
    baseline: Literal["random", "encoder"] = Field(
        "random", description="what it is compared with: random weights, or the encoder only"
    )


class PretrainingNumbers(StoredNumbers):
    judged: str
    baseline: str
    random: StoredScore
    encoder: StoredScore
    both: StoredScore

    def of(self, start: str) -> StoredScore:
        """StoredScore with random weights, a pre-trained encoder, or both sides pre-trained."""
        return {"random": self.random, "encoder": self.encoder, "both": self.both}[start]


class Pretraining(Lab[PretrainingSettings, PretrainingNumbers]):
    name = "pretraining"
    claim = "Low-resource language pairs are difficult, and pre-training on plain text helps"
    note = Note(LECTURE_7, "Difficulties")
    equation = (
        r"\mathrm{text}:\ \min_\theta -\log P_\theta(x \mid \mathrm{noise}(x))\qquad"
        r" \mathrm{then\ pairs}:\ \min_\theta -\log P_\theta(y \mid x)"
    )
    method = (
        "Train a small Transformer on 2,000 pairs of Multi30k, English to German, from random weights, from "
        "the encoder of a masked model, and from both sides of a denoising model; the last two have read "
        "29,000 sentences of each language before. Compare BLEU on the test file. This takes hours, so the lab "
        "reads the numbers that benchmarks/pretraining.py measured."
    )
    criterion = (
        "holds: pre-training adds at least 5 BLEU, and the 95 % intervals do not overlap. Holds in part: it "
        "adds less, but the intervals do not overlap. Otherwise it does not hold here."
    )
    explanation = (
        "The text teaches both sides their language, so that the pairs only have to teach the relation between "
        "them. Part of the gain is the vocabulary: with random weights it has 3,000 pieces from 2,000 pairs, "
        "with pre-training 6,000 pieces from all of the text. The first two models were still improving at the "
        "end of the training, and there is one seed, so the size of the gain is uncertain; its direction is "
        "not."
    )
    variations = (
        Variation("start=encoder", "The encoder alone: how much of the gain is left?"),
        Variation("baseline=encoder", "What does a pre-trained decoder add to the encoder?"),
    )
    exercise = Exercise(
        "The learning curve of the lab data-size has 24.4 BLEU with 8,000 pairs and random weights. How many "
        "pairs is pre-training on text worth here?",
        "Both sides pre-trained reach 25.1 BLEU with 2,000 pairs, as much as more than 8,000 pairs: about "
        "6,000 pairs.",
    )
    seconds = 1
    settings = PretrainingSettings
    numbers = PretrainingNumbers
    measured_by = "python benchmarks/pretraining.py"

    def run(self, settings: PretrainingSettings) -> PretrainingNumbers:
        chosen = {"judged": settings.start, "baseline": settings.baseline}
        return PretrainingNumbers.model_validate({**measured(self.name), **chosen})

    def judge(self, numbers: PretrainingNumbers) -> Judgement:
        before, after = numbers.of(numbers.baseline), numbers.of(numbers.judged)
        gain = after.value - before.value
        reason = f"Pre-training adds {gain:.1f} BLEU: from {before} to {after}. {numbers.origin()}."
        if not after.above(before):
            return Judgement(Verdict.NOT_HERE, reason)
        return Judgement(Verdict.HOLDS if gain >= _GAIN else Verdict.IN_PART, reason)

    def table(self, numbers: PretrainingNumbers) -> NumberTable:
        scores = (numbers.random, numbers.encoder, numbers.both)
        rows = [(" ".join(label.split()), str(one)) for label, one in zip(_LABELS, scores, strict=True)]
        return NumberTable(("start", "BLEU"), rows)

    def draw(self, numbers: PretrainingNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        scores = (numbers.random, numbers.encoder, numbers.both)
        values = [one.value for one in scores]
        errors = [[one.value - one.low for one in scores], [one.high - one.value for one in scores]]
        panel.bar([*_LABELS], values, yerr=errors, capsize=4, color=[*_LABELS.values()], alpha=0.75)
        panel.set_xlabel("start (lines: 95 % intervals)")
        panel.set_ylabel("BLEU with 2,000 pairs")


LAB = Pretraining()
