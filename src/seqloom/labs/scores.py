"""Three ways to compute attention scores: dot product, multiplicative and additive."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from seqloom.inspect.picture import BLUE, GREEN, VERMILLION, Style
from seqloom.labs.framework.lab import (
    LECTURE_7,
    Exercise,
    Judgement,
    Lab,
    Note,
    Numbers,
    NumberTable,
    Variation,
)
from seqloom.labs.framework.training import DIGITS, copy_accuracies
from seqloom.labs.framework.trials import by_kind, draw_bars, percent, verdict_over_seeds
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MODELS = {"dot product": "lstm-dot", "multiplicative": "lstm-bilinear", "additive": "lstm-additive"}
_COLORS = {"dot product": VERMILLION, "multiplicative": BLUE, "additive": GREEN}
_LEARNED = 0.8  # accuracy at the largest length


class ScoresSettings(Settings):
    seeds: int = Field(3, ge=1, description="models per kind of score")
    steps: int = Field(200, ge=1, description="updates of 48 pairs")
    width: int = Field(48, ge=2, description="width of the states")
    longest: int = Field(10, ge=2, description="largest length in training, in digits")


class ScoresNumbers(Numbers):
    longest: int
    accuracy: dict[str, list[float]]  # by kind and seed, at the largest length


class Scores(Lab[ScoresSettings, ScoresNumbers]):
    name = "scores"
    claim = "Dot-product, multiplicative and additive scores are three ways to the same attention"
    note = Note(LECTURE_7, "Attention Variants")
    equation = (
        r"e_i = s^\top h_i,\qquad e_i = s^\top W h_i,\qquad"
        r" e_i = v^\top \tanh(W_1 h_i + W_2 s)"
    )
    method = (
        "Train LSTM encoder-decoders that differ only in the score to copy 1 to 10 random digits, with the "
        "same small number of updates. Measure the share of correct digits at 10 digits, given the correct "
        "digits before."
    )
    criterion = (
        "holds: with each of the three scores, at least 80 % of the digits are correct in all of at least 3 "
        "seeds. Holds in part: for the mean of at least one score, or with fewer seeds. Otherwise it does not "
        "hold here."
    )
    explanation = (
        "All three can compare a decoder state with encoder states; they differ in how much they learn. A dot "
        "product has no weights: both states have to arrange themselves in the same space, and their widths "
        "must be equal. W in the multiplicative score translates between two spaces, and the additive score "
        "is a small network. This test is about the start of training, where such differences show; with more "
        "updates they shrink."
    )
    variations = (
        Variation("steps=600 seeds=1", "Do the differences remain with three times as many updates?"),
        Variation("steps=100 seeds=1", "Which score learns first?"),
        Variation("longest=20 seeds=1", "Longer sources: which score needs the most training?"),
    )
    exercise = Exercise(
        "Encoder and decoder states have width d, and the additive score has an inner width of d. How many "
        "weights has each score?",
        "The dot product none, the multiplicative score d², the additive one 2d² + d.",
    )
    seconds = 40
    settings = ScoresSettings
    numbers = ScoresNumbers
    trains = True
    full: ClassVar[dict[str, object]] = {"steps": 2000, "width": 128, "longest": 30}

    def run(self, settings: ScoresSettings) -> ScoresNumbers:
        def accuracy(kind: str, seed: int) -> float:
            return copy_accuracies(
                _MODELS[kind],
                seed=seed,
                width=settings.width,
                steps=settings.steps,
                longest=settings.longest,
                lengths=[settings.longest],
            )[0]

        found = by_kind([*_MODELS], settings.seeds, accuracy)
        return ScoresNumbers(longest=settings.longest, accuracy=found)

    def judge(self, numbers: ScoresNumbers) -> Judgement:
        shown = ", ".join(f"{kind} {mean(row):.0%}" for kind, row in numbers.accuracy.items())
        seeds = min(map(len, numbers.accuracy.values()))
        reason = f"Correct digits at length {numbers.longest}, mean of {seeds} seeds: {shown}."
        verdict = verdict_over_seeds(
            in_every_seed=min(map(min, numbers.accuracy.values())) >= _LEARNED,
            on_average=max(map(mean, numbers.accuracy.values())) >= _LEARNED,
            seeds=seeds,
        )
        return Judgement(verdict, reason)

    def table(self, numbers: ScoresNumbers) -> NumberTable:
        rows = [
            (kind, f"{mean(row):.1%}", ", ".join(f"{one:.1%}" for one in row))
            for kind, row in numbers.accuracy.items()
        ]
        return NumberTable(("score", "correct digits, mean", "seeds"), rows)

    def draw(self, numbers: ScoresNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        draw_bars(panel, {kind: percent(row) for kind, row in numbers.accuracy.items()}, _COLORS)
        panel.axhline(100 / DIGITS, color="0.4", ls=":", label="chance")
        panel.set_ylim(0, 104)
        panel.set_xlabel("attention score (points: seeds)")
        panel.set_ylabel(f"correct digits at length {numbers.longest}, %")
        panel.legend()


LAB = Scores()
