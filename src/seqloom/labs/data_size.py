"""Statistical translation needs fewer pairs than neural translation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from seqloom.errors import SeqloomError
from seqloom.inspect.picture import BLUE, VERMILLION, Style
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


class DataSizeSettings(Settings):
    smallest: int = Field(1, ge=1, description="ignore results with fewer training pairs")
    largest: int = Field(29_000, ge=1, description="ignore results with more training pairs")


class DataSizeNumbers(StoredNumbers):
    pairs: list[int]
    statistical: list[StoredScore]
    neural: list[StoredScore]


class DataSize(Lab[DataSizeSettings, DataSizeNumbers]):
    name = "data-size"
    claim = (
        "Neural translation is better with enough pairs, and low-resource language pairs remain a difficulty"
    )
    note = Note(LECTURE_7, "Difficulties")
    equation = (
        r"\mathrm{statistical}:\ \mathrm{argmax}_y\, P(x \mid y)\, P(y)\qquad"
        r" \mathrm{neural}:\ \mathrm{argmax}_y \prod_t P(y_t \mid y_{<t}, x)"
    )
    method = (
        "Train a phrase-based model and a small Transformer on the first 500, 2,000, 8,000 and all 29,000 "
        "pairs of Multi30k, English to German, and compare BLEU on the test file. This takes hours, so the lab "
        "reads the numbers that benchmarks/learning_curve.py measured."
    )
    criterion = (
        "holds: with the fewest pairs the phrase-based model has more BLEU than the Transformer, and with the "
        "most pairs less, each with 95 % intervals that do not overlap. Holds in part: the order is the same, "
        "but intervals overlap. Otherwise it does not hold here."
    )
    explanation = (
        "The phrase-based model counts: a phrase that occurs once is known, and a language model puts phrases "
        "together. The Transformer starts without any of these assumptions and has to learn them from pairs, "
        "but it continues to improve when the phrase-based model flattens. By linear interpolation over the "
        "logarithm, they cross at about 21,000 short captions. With all pairs, the intervals of this small "
        "Transformer and the phrase-based model still overlap. This is one seed and one corpus of simple text."
    )
    variations = (
        Variation("largest=8000", "Which model do you choose for 8,000 pairs?"),
        Variation("smallest=8000", "Where do the two curves cross?"),
    )
    exercise = Exercise(
        "The phrase-based model gains 6.0, 5.1 and 4.9 BLEU, the Transformer 6.4, 10.8 and 12.3, each time "
        "that the number of pairs is multiplied by about 4. Which BLEU would you predict for 116,000 pairs, "
        "and why should you not trust the prediction?",
        "About 39.6 and 49. The gains of the Transformer cannot keep growing: a small model and the limits of "
        "the metric flatten its curve, too.",
    )
    seconds = 1
    settings = DataSizeSettings
    numbers = DataSizeNumbers
    measured_by = "python benchmarks/learning_curve.py --data multi30k/tokenised --work runs/curve"

    def run(self, settings: DataSizeSettings) -> DataSizeNumbers:
        everything = DataSizeNumbers.model_validate(measured(self.name))
        chosen = [
            at for at, pairs in enumerate(everything.pairs) if settings.smallest <= pairs <= settings.largest
        ]
        if not chosen:
            raise SeqloomError(
                f"No result has {settings.smallest:,} to {settings.largest:,} training pairs.",
                f"choose a range that contains one of {', '.join(map(str, everything.pairs))}",
            )
        parts = ("pairs", "statistical", "neural")
        return everything.model_copy(
            update={part: [getattr(everything, part)[at] for at in chosen] for part in parts}
        )

    def judge(self, numbers: DataSizeNumbers) -> Judgement:
        few, many = (numbers.statistical[0], numbers.neural[0]), (numbers.statistical[-1], numbers.neural[-1])
        reason = (
            f"BLEU of the phrase-based model and the Transformer: {few[0]} and {few[1]} with "
            f"{numbers.pairs[0]:,} pairs, {many[0]} and {many[1]} with {numbers.pairs[-1]:,}. "
            f"{numbers.origin()}."
        )
        if few[0].value <= few[1].value or many[1].value <= many[0].value:
            return Judgement(Verdict.NOT_HERE, reason)
        sure = few[0].above(few[1]) and many[1].above(many[0])
        return Judgement(Verdict.HOLDS if sure else Verdict.IN_PART, reason)

    def table(self, numbers: DataSizeNumbers) -> NumberTable:
        rows = [
            (f"{pairs:,}", str(statistical), str(neural))
            for pairs, statistical, neural in zip(
                numbers.pairs, numbers.statistical, numbers.neural, strict=True
            )
        ]
        return NumberTable(("training pairs", "phrase-based, BLEU", "Transformer, BLEU"), rows)

    def draw(self, numbers: DataSizeNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        for scores, label, color, marker in (
            (numbers.statistical, "phrase-based", VERMILLION, "s"),
            (numbers.neural, "Transformer", BLUE, "o"),
        ):
            values = [one.value for one in scores]
            errors = [[one.value - one.low for one in scores], [one.high - one.value for one in scores]]
            panel.errorbar(numbers.pairs, values, errors, fmt=f"{marker}-", capsize=4, color=color, label=label)
        panel.set_xscale("log")
        panel.set_xticks(numbers.pairs, [f"{one:,}" for one in numbers.pairs])
        panel.minorticks_off()
        panel.set_xlabel("training pairs (bars: 95 % intervals)")
        panel.set_ylabel("BLEU, test file")
        panel.grid()
        panel.legend()


LAB = DataSize()
