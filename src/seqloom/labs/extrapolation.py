"""Absolute positions do not work beyond the lengths of training."""

from __future__ import annotations

from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, ClassVar

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
)
from seqloom.labs.framework.models import untrained_model
from seqloom.labs.framework.training import DIGITS, FIRST, copy_pair, copy_pairs, token_accuracy, train
from seqloom.labs.framework.trials import by_kind, verdict_over_seeds
from seqloom.nn.positions import PositionName
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEARNED, _FAILED = 0.9, 0.5  # accuracy inside and beyond the lengths of training


class ExtrapolationSettings(Settings):
    seeds: int = Field(3, ge=1, description="models per kind of positions")
    positions: tuple[PositionName, ...] = Field(
        ("sinusoidal", "learned"), min_length=1, description="kinds of positions to compare"
    )
    steps: int = Field(300, ge=1, description="updates of 48 pairs")
    longest: int = Field(10, ge=2, description="largest length in training, in digits")
    width: int = Field(32, ge=8, multiple_of=4, description="width of the vectors")
    layers: int = Field(1, ge=1, description="encoder layers and decoder layers")


class ExtrapolationNumbers(Numbers):
    longest: int
    inside: dict[str, list[float]]  # by kind and seed: accuracy at the largest length in training
    beyond: dict[str, list[float]]  # the same for the second half of inputs of twice this length


class Extrapolation(Lab[ExtrapolationSettings, ExtrapolationNumbers]):
    name = "extrapolation"
    claim = "Sinusoidal and learned positions do not extrapolate to longer sequences"
    note = Note(LECTURE_9, "Issue: Doesn’t have an inherent notion of order")
    equation = (
        r"x_i + p_i,\qquad p_{i,2k} = \sin(i / 10000^{2k/d}),\quad p_{i,2k+1} = \cos(i / 10000^{2k/d})"
        r"\qquad \mathrm{or}\ p_i\ \mathrm{learned}"
    )
    method = (
        "Train a small Transformer to copy up to 10 random digits. Test it on 10 digits, and on 20: count "
        "only the digits 11 to 20, whose positions did not occur in training."
    )
    criterion = (
        "holds: in all of at least 3 seeds and for all kinds of positions, at least 90 % of the digits are "
        "correct inside the lengths of training and less than 50 % beyond. Holds in part: the same for the "
        "means, or with fewer seeds. Otherwise it does not hold here."
    )
    explanation = (
        "A learned vector of a position that never occurred keeps its random start values. Sinusoidal vectors "
        "of later positions are defined, and they are combinations of known sines, but the model has never "
        "been trained to use these combinations. So both fail, for different reasons. Kinds that depend on "
        "distances have a better chance, but the first variation shows that they do not succeed by themselves "
        "either: distances above 10 did not occur in training."
    )
    variations = (
        Variation("positions=[rotary,alibi,t5] seeds=1", "Do kinds that use distances extrapolate?"),
        Variation("steps=900 seeds=1", "Does longer training at the same lengths help?"),
        Variation("longest=20 seeds=1", "Is the limit at 10 digits, or at the lengths of training?"),
    )
    exercise = Exercise(
        "A model on 20 digits copies the digits 1 to 10 without errors and guesses the others. Which share "
        "of the 20 digits is correct, and why does the lab not report this number?",
        "(10 + 10 · 0.1) / 20 = 55 %. It mixes positions of the training with new ones and hides that "
        "nothing is copied from the new positions.",
    )
    seconds = 45
    settings = ExtrapolationSettings
    numbers = ExtrapolationNumbers
    trains = True
    full: ClassVar[dict[str, object]] = {
        "positions": ("sinusoidal", "learned", "rotary", "relative", "t5", "alibi"),
        "steps": 5000,
        "layers": 2,
        "width": 64,
    }

    def run(self, settings: ExtrapolationSettings) -> ExtrapolationNumbers:
        found = by_kind(
            settings.positions, settings.seeds, lambda kind, seed: _accuracies(kind, settings, seed)
        )
        inside, beyond = (
            {kind: [row[part] for row in rows] for kind, rows in found.items()} for part in (0, 1)
        )
        return ExtrapolationNumbers(longest=settings.longest, inside=inside, beyond=beyond)

    def judge(self, numbers: ExtrapolationNumbers) -> Judgement:
        shown = "; ".join(
            f"{kind} {mean(numbers.inside[kind]):.0%} inside, {mean(numbers.beyond[kind]):.0%} beyond"
            for kind in numbers.inside
        )
        seeds = min(len(row) for row in numbers.inside.values())
        reason = f"Correct digits, mean of {seeds} seeds: {shown}."
        inside, beyond = numbers.inside.values(), numbers.beyond.values()
        verdict = verdict_over_seeds(
            in_every_seed=min(map(min, inside)) >= _LEARNED and max(map(max, beyond)) < _FAILED,
            on_average=min(map(mean, inside)) >= _LEARNED and max(map(mean, beyond)) < _FAILED,
            seeds=seeds,
        )
        return Judgement(verdict, reason)

    def table(self, numbers: ExtrapolationNumbers) -> NumberTable:
        rows = [
            (kind, str(seed), f"{inside:.1%}", f"{beyond:.1%}")
            for kind in numbers.inside
            for seed, (inside, beyond) in enumerate(
                zip(numbers.inside[kind], numbers.beyond[kind], strict=True), 1
            )
        ]
        columns = ("positions", "seed", f"{numbers.longest} digits", f"digits after {numbers.longest}")
        return NumberTable(columns, rows)

    def draw(self, numbers: ExtrapolationNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        kinds = list(numbers.inside)
        for found, label, color, shift in (
            (numbers.inside, f"up to {numbers.longest} digits, as in training", BLUE, -0.2),
            (numbers.beyond, f"digits {numbers.longest + 1} to {2 * numbers.longest}", VERMILLION, 0.2),
        ):
            places = [place + shift for place in range(len(kinds))]
            panel.bar(places, [100 * mean(found[kind]) for kind in kinds], width=0.4, color=color, label=label)
            for place, kind in zip(places, kinds, strict=True):
                panel.plot([place] * len(found[kind]), [100 * one for one in found[kind]], "o", color="0.2")
        panel.axhline(100 / DIGITS, color="0.4", ls=":", label="chance")
        panel.set_xticks(range(len(kinds)), kinds)
        panel.set_xlabel("positions (points: seeds)")
        panel.set_ylabel("correct digits, %")
        panel.margins(y=0.35)
        panel.set_yticks(range(0, 101, 20))
        panel.legend()


def _accuracies(kind: PositionName, settings: ExtrapolationSettings, seed: int) -> tuple[float, float]:
    """Train a model and return its accuracy inside and beyond the lengths of training."""
    model = untrained_model(
        "transformer",
        vocabulary=FIRST + DIGITS,
        seed=seed,
        width=settings.width,
        heads=4,
        ffn=2 * settings.width,
        layers=settings.layers,
        positions=kind,
        max_length=2 * settings.longest + 2,
    )
    draw = partial(copy_pair, longest=settings.longest)
    train(model, draw, steps=settings.steps, seed=seed, rate=1e-2, pairs=48)
    return (
        token_accuracy(model, copy_pairs(settings.longest)),
        token_accuracy(model, copy_pairs(2 * settings.longest), after=settings.longest),
    )


LAB = Extrapolation()
