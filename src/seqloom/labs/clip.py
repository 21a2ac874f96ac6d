"""Gradient clipping bounds the step of gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field

from seqloom.errors import SeqloomError
from seqloom.inspect.picture import BLUE, VERMILLION, Style
from seqloom.labs.framework.lab import (
    LECTURE_6,
    Exercise,
    Judgement,
    Lab,
    Note,
    Numbers,
    NumberTable,
    Variation,
    Verdict,
)
from seqloom.labs.framework.models import random_batch, recurrent_matrix, untrained_model
from seqloom.models.base import SequenceModel
from seqloom.settings import Settings
from seqloom.training.config import OptimizerName, TrainConfig
from seqloom.training.loss import cross_entropy
from seqloom.training.optimizer import Updater

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VOCABULARY = 40
_ROUNDING = 1e-4  # relative
_EXPLODED = 10.0  # unclipped step, relative to the bound


class ClipSettings(Settings):
    gains: tuple[float, ...] = Field(
        (0.5, 1.0, 1.5, 2.0, 2.5, 3.0), min_length=2, description="factors on the recurrent matrix of the model"
    )
    clip: float = Field(1.0, gt=0, description="maximum norm of the gradient")
    rate: float = Field(0.1, gt=0, description="learning rate")
    optimizer: OptimizerName = Field("sgd", description="optimizer: sgd or adamw")
    length: int = Field(30, ge=2, description="target length")
    width: int = Field(32, ge=2, description="width of the states")
    seed: int = Field(1, description="seed of weights and sentences")


class StepNumbers(Numbers):
    gain: float
    gradient: float  # norm
    clipped: float  # norm of the change of all weights, with clipping
    unclipped: float


class ClipNumbers(Numbers):
    bound: float  # clip × rate
    steps: list[StepNumbers]


class Clip(Lab[ClipSettings, ClipNumbers]):
    name = "clip"
    claim = "Clipping the gradient bounds the step, however large the gradient is"
    note = Note(LECTURE_6, "Exploding gradients")
    equation = (
        r"g \leftarrow \frac{c}{\Vert g \Vert}\, g\ \ \mathrm{if}\ \ \Vert g \Vert > c"
        r"\qquad\Rightarrow\qquad \Vert \Delta \theta \Vert = \eta \Vert g \Vert \leq \eta c"
    )
    method = (
        "Multiply the recurrent matrix of a simple RNN without non-linearity by growing factors, so that its "
        "gradient explodes. Make one step of gradient descent with and without clipping, and measure by how "
        "much the weights change."
    )
    criterion = (
        "holds: with clipping, no step is longer than clip × learning rate; without it, at least one is more "
        "than 10 times as long. Holds in part: steps are bounded, but none is 10 times as long without "
        "clipping. Otherwise it does not hold here."
    )
    explanation = (
        "Plain gradient descent moves the weights by the learning rate times the gradient, so a bound on the "
        "norm of the gradient is a bound on the step. Clipping changes the length and not the direction. Adam "
        "divides every coordinate by its recent size and makes a step of about the learning rate in each: its "
        "step does not depend on the scale of the gradient, and the bound clip × rate does not hold for it."
    )
    variations = (
        Variation(
            "optimizer=adamw rate=0.001", "Which part of the claim is about plain gradient descent only?"
        ),
        Variation("clip=0.1", "Which steps does a smaller limit change?"),
        Variation("length=35", "Longer sentences: how does the unclipped step grow?"),
    )
    exercise = Exercise(
        "A model with 10⁶ weights is trained with Adam and a learning rate of 0.001. How long is its first "
        "step, with and without clipping?",
        "In the first step Adam moves each weight by the learning rate in the direction of the sign of its "
        "gradient: 0.001 · √10⁶ = 1 in both cases, as a common factor of the gradient cancels.",
    )
    seconds = 2
    settings = ClipSettings
    numbers = ClipNumbers
    full: ClassVar[dict[str, object]] = {"width": 256, "length": 35}

    def run(self, settings: ClipSettings) -> ClipNumbers:
        steps = []
        for gain in settings.gains:
            (gradient, clipped), (_, unclipped) = (
                _step(settings, gain, clip=clip) for clip in (settings.clip, 0.0)
            )
            steps.append(StepNumbers(gain=gain, gradient=gradient, clipped=clipped, unclipped=unclipped))
        return ClipNumbers(bound=settings.clip * settings.rate, steps=steps)

    def judge(self, numbers: ClipNumbers) -> Judgement:
        clipped = max(one.clipped for one in numbers.steps) / numbers.bound
        unclipped = max(one.unclipped for one in numbers.steps) / numbers.bound
        reason = (
            f"The longest step is {clipped:.3g} times clip × learning rate with clipping, and {unclipped:.3g} "
            "times without it."
        )
        if clipped > 1 + _ROUNDING:
            return Judgement(Verdict.NOT_HERE, reason)
        return Judgement(Verdict.HOLDS if unclipped > _EXPLODED else Verdict.IN_PART, reason)

    def table(self, numbers: ClipNumbers) -> NumberTable:
        rows = [
            (f"{one.gain:g}", f"{one.gradient:.2e}", f"{one.clipped:.2e}", f"{one.unclipped:.2e}")
            for one in numbers.steps
        ]
        return NumberTable(("factor", "gradient norm", "step, clipped", "step, not clipped"), rows)

    def draw(self, numbers: ClipNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        steps = sorted(numbers.steps, key=lambda one: one.gradient)
        gradients = [one.gradient for one in steps]
        panel.plot(gradients, [one.unclipped for one in steps], "^-", color=VERMILLION, label="not clipped")
        panel.plot(gradients, [one.clipped for one in steps], "o-", color=BLUE, label="clipped")
        panel.axhline(numbers.bound, color="0.4", ls="--", label="clip × learning rate")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("gradient norm")
        panel.set_ylabel("norm of the change of the weights")
        panel.grid()
        panel.legend()


def _step(settings: ClipSettings, gain: float, *, clip: float) -> tuple[float, float]:
    """Return the norm of the gradient, and of the change of the weights in one update."""
    model = _model(settings, gain)
    batch = random_batch(
        sentences=8, source_length=4, target_length=settings.length, vocabulary=_VOCABULARY, seed=settings.seed
    )
    assert batch.target_out is not None
    before = [weight.detach().clone() for weight in model.parameters()]
    loss = cross_entropy(model.hidden(batch), model.output, batch.target_out).total
    loss.backward()  # type: ignore[no-untyped-call]
    config = TrainConfig.model_validate({"optimizer": settings.optimizer, "clip": clip})
    update = Updater(model, config).update(batch.target_tokens, settings.rate)
    if not update.norm.isfinite():
        raise SeqloomError(
            f"The gradient is too large for 32-bit numbers (factor {gain:g}, length {settings.length}).",
            "lower length or the largest of gains",
        )
    with torch.no_grad():
        changes = [new - old for new, old in zip(model.parameters(), before, strict=True)]
        return float(update.norm), float(torch.stack([one.norm() for one in changes]).norm())


def _model(settings: ClipSettings, gain: float) -> SequenceModel:
    model = untrained_model(
        "rnn-last",
        vocabulary=_VOCABULARY,
        seed=settings.seed,
        width=settings.width,
        layers=1,
        activation="identity",
        init="orthogonal",
    )
    with torch.no_grad():
        recurrent_matrix(model).mul_(gain)
    return model


LAB = Clip()
