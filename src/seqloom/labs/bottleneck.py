"""One vector is a bottleneck for long sources, and attention removes it."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from seqloom.inspect.picture import BLUE, ORANGE, VERMILLION, Style
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
from seqloom.labs.framework.trials import by_kind, draw_curves, percent, verdict_over_seeds
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MODELS = {"last state": "lstm-last", "mean of states": "lstm-mean", "attention": "lstm-bilinear"}
_COLORS = {"last state": VERMILLION, "mean of states": ORANGE, "attention": BLUE}
_SOLVED, _LOST = 0.9, 0.2  # accuracy at the largest length; fall from the smallest to the largest length


class BottleneckSettings(Settings):
    seeds: int = Field(3, ge=1, description="models per kind")
    steps: int = Field(300, ge=1, description="updates of 48 pairs")
    width: int = Field(48, ge=2, description="width of the states")
    longest: int = Field(12, ge=4, description="largest length in training, in digits")
    lengths: tuple[int, ...] = Field((2, 4, 6, 8, 10, 12), min_length=2, description="lengths tested")


class BottleneckNumbers(Numbers):
    lengths: list[int]
    accuracy: dict[str, list[list[float]]]  # by kind, seed and length

    def of(self, kind: str, length: int) -> list[float]:
        """Accuracies of all seeds at one of the lengths, counted from 0 or from the end."""
        return [row[length] for row in self.accuracy[kind]]


class Bottleneck(Lab[BottleneckSettings, BottleneckNumbers]):
    name = "bottleneck"
    claim = "A decoder that gets only the last encoder state loses long sources, and attention solves this"
    note = Note(LECTURE_7, "Sequence-to-sequence: the bottleneck problem")
    equation = (
        r"\mathrm{last}:\ c = h_N\qquad \mathrm{mean}:\ c = \frac{1}{N} \sum_i h_i\qquad"
        r" \mathrm{attention}:\ c_t = \sum_i \alpha^t_i h_i"
    )
    method = (
        "Train three LSTM encoder-decoders to copy 1 to 12 random digits: the decoder gets the last encoder "
        "state, the mean of the states, or attention to all of them with the multiplicative score "
        "e = sᵀ W h (model lstm-bilinear). Measure the share of correct digits by length, given the correct "
        "digits before. Random digits cannot be guessed from the others."
    )
    criterion = (
        "holds: in all of at least 3 seeds, attention has at least 90 % of the digits correct at the largest "
        "length, and both other models lose at least 20 points from the smallest to the largest length. Holds "
        "in part: the same for the means, or with fewer seeds. Otherwise it does not hold here."
    )
    explanation = (
        "All models have the same number of updates. A vector of fixed width has to hold every digit and its "
        "position, so each further digit costs accuracy; the mean has the same limit, because it is one "
        "vector, too. With attention, the decoder reads one encoder state per step, and its memory grows with "
        "the source. The bottleneck is not absolute: with more training or a larger width, one vector holds "
        "more digits."
    )
    variations = (
        Variation("width=96 seeds=1", "A wider state: how many more digits fit?"),
        Variation("steps=900 seeds=1", "Is the bottleneck a limit of the vector or of the training?"),
        Variation("lengths=[8,12,16,20] seeds=1", "Longer than in training: what does attention do there?"),
    )
    exercise = Exercise(
        "How many bits does a copy of 12 random digits need, and how many numbers does a state of width 48 "
        "have? Why is the state still a bottleneck?",
        "12 · log₂ 10 = 39.9 bits; 48 floats of 32 bits have 1,536. The capacity is there, but gradient "
        "descent has to find a code for it: every digit must be written and read without disturbing the "
        "others.",
    )
    seconds = 45
    settings = BottleneckSettings
    numbers = BottleneckNumbers
    trains = True
    full: ClassVar[dict[str, object]] = {
        "steps": 3000,
        "width": 128,
        "longest": 30,
        "lengths": (2, 5, 10, 20, 30),
    }

    def run(self, settings: BottleneckSettings) -> BottleneckNumbers:
        lengths = sorted(settings.lengths)

        def accuracies(kind: str, seed: int) -> list[float]:
            return copy_accuracies(
                _MODELS[kind],
                seed=seed,
                width=settings.width,
                steps=settings.steps,
                longest=settings.longest,
                lengths=lengths,
            )

        accuracy = by_kind([*_MODELS], settings.seeds, accuracies)
        return BottleneckNumbers(lengths=lengths, accuracy=accuracy)

    def judge(self, numbers: BottleneckNumbers) -> Judgement:
        *single, attention = _MODELS
        falls = {
            kind: [first - last for first, last in zip(numbers.of(kind, 0), numbers.of(kind, -1), strict=True)]
            for kind in single
        }
        reached = numbers.of(attention, -1)
        shown = ", ".join(f"{mean(numbers.of(kind, -1)):.0%} with {kind}" for kind in numbers.accuracy)
        seeds = len(reached)
        reason = f"Correct digits at length {numbers.lengths[-1]}, mean of {seeds} seeds: {shown}."
        verdict = verdict_over_seeds(
            in_every_seed=min(reached) >= _SOLVED and min(map(min, falls.values())) >= _LOST,
            on_average=mean(reached) >= _SOLVED and min(map(mean, falls.values())) >= _LOST,
            seeds=seeds,
        )
        return Judgement(verdict, reason)

    def table(self, numbers: BottleneckNumbers) -> NumberTable:
        rows = [
            (str(length), *(f"{mean(numbers.of(kind, at)):.1%}" for kind in numbers.accuracy))
            for at, length in enumerate(numbers.lengths)
        ]
        return NumberTable(("digits", *numbers.accuracy), rows)

    def draw(self, numbers: BottleneckNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        points = {kind: [*map(percent, rows)] for kind, rows in numbers.accuracy.items()}
        draw_curves(panel, numbers.lengths, points, _COLORS)
        panel.axhline(100 / DIGITS, color="0.4", ls=":", label="chance")
        panel.set_ylim(0, 104)
        panel.set_xlabel("digits to copy (points: seeds)")
        panel.set_ylabel("correct digits, %")
        panel.grid()
        panel.legend()


LAB = Bottleneck()
