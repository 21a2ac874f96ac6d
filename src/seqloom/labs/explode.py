"""Training with exploding gradients fails without clipping and works with it.

Pilot (seeds 101 and 102, before the criterion was fixed): with a factor of 3 on the recurrent matrix, training
without clipping ended with a loss that is not a number in both seeds; with a factor of 2, in one of two. With
clipping, the loss fell to between 2.2 and 2.5 nats in all cases.
"""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field

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
)
from seqloom.labs.framework.models import recurrent_matrix, untrained_model
from seqloom.labs.framework.training import DIGITS, FIRST, copy_pair, pairs_batch
from seqloom.labs.framework.trials import by_kind, verdict_over_seeds
from seqloom.settings import Settings
from seqloom.training.config import TrainConfig
from seqloom.training.loss import LossModule
from seqloom.training.optimizer import Updater

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CLIPPED, _UNCLIPPED = "clipped", "not clipped"
_STYLES = {_CLIPPED: (BLUE, "-"), _UNCLIPPED: (VERMILLION, "--")}
_GUESS = math.log(FIRST + DIGITS)  # loss of the uniform distribution
_HIGHEST = 1e12  # larger losses, and those that are not numbers, are stored as this


class ExplodeSettings(Settings):
    seeds: int = Field(3, ge=1, description="models with and without clipping")
    gain: float = Field(3.0, gt=0, description="factor on the orthogonal recurrent matrix at the start")
    clip: float = Field(1.0, gt=0, description="maximum norm of the gradient")
    rate: float = Field(0.3, gt=0, description="learning rate")
    steps: int = Field(150, ge=1, description="updates of 32 pairs")
    longest: int = Field(10, ge=1, description="largest length, in digits")
    width: int = Field(32, ge=2, multiple_of=2, description="width of the states")


class ExplodeNumbers(Numbers):
    losses: dict[str, list[list[float]]]  # by kind, seed and update: nats per token, at most 10^12


class Explode(Lab[ExplodeSettings, ExplodeNumbers]):
    name = "explode"
    claim = "If gradients explode, the update becomes too large and training fails; clipping solves this"
    note = Note(LECTURE_6, "Exploding gradients")
    equation = (
        r"\theta \leftarrow \theta - \eta\, g\qquad \mathrm{against}\qquad"
        r" \theta \leftarrow \theta - \eta\, \frac{c}{\max(c, \Vert g \Vert)}\, g"
    )
    method = (
        "Train an RNN encoder-decoder with ReLU to copy 1 to 10 digits by plain gradient descent. Its "
        "recurrent matrix starts as 3 times an orthogonal matrix, so gradients grow by up to a factor of 3 per "
        "step. Compare the loss with and without clipping the gradient to norm 1."
    )
    criterion = (
        "holds: in all of at least 3 seeds, the last loss without clipping is above the first one or not a "
        "number, and the last loss with clipping is below that of a uniform guess. Holds in part: in most "
        "seeds, or with fewer seeds. Otherwise it does not hold here."
    )
    explanation = (
        "A gradient with norm 1,000 moves the weights by 300 with a learning rate of 0.3. The states and the "
        "next gradient are even larger, and after a few updates they exceed the numbers that 32 bits can hold: "
        "seqloom skips an update whose gradient is not finite, so the model stays where it is. Clipping keeps "
        "the direction and limits the first steps to 0.3, until the recurrent matrix is small enough. It does "
        "not make a bad start good: the loss is only slightly below that of guessing digits, because the large "
        "matrix still has to be unlearned. Without clipping, a smaller factor can be harmless or not, by "
        "chance."
    )
    variations = (
        Variation("gain=1", "A normal start: is clipping necessary?"),
        Variation("gain=2", "Does training without clipping fail with every seed?"),
        Variation("rate=0.003", "Is a smaller learning rate an alternative to clipping?"),
    )
    exercise = Exercise(
        "The gradient has norm 1,000 in the first update, and clipping divides it by 1,000. Why not divide the "
        "learning rate by 1,000 instead?",
        "Then every update would be 1,000 times as small, also the later ones, whose gradients have a norm "
        "below 1. Clipping changes only the updates that are too large.",
    )
    seconds = 6
    settings = ExplodeSettings
    numbers = ExplodeNumbers
    trains = True
    full: ClassVar[dict[str, object]] = {"steps": 3000, "width": 128, "seeds": 10}

    def run(self, settings: ExplodeSettings) -> ExplodeNumbers:
        clips = {_CLIPPED: settings.clip, _UNCLIPPED: 0.0}
        losses = by_kind([*clips], settings.seeds, lambda kind, seed: _losses(settings, seed, clip=clips[kind]))
        return ExplodeNumbers(losses=losses)

    def judge(self, numbers: ExplodeNumbers) -> Judgement:
        failed = [row[-1] > row[0] for row in numbers.losses[_UNCLIPPED]]
        learned = [row[-1] < _GUESS for row in numbers.losses[_CLIPPED]]
        reason = (
            f"Training fails without clipping in {sum(failed)} of {len(failed)} seeds, and succeeds with it in "
            f"{sum(learned)}."
        )
        right = [a and b for a, b in zip(failed, learned, strict=True)]
        verdict = verdict_over_seeds(
            in_every_seed=all(right), on_average=sum(right) > len(right) / 2, seeds=len(right)
        )
        return Judgement(verdict, reason)

    def table(self, numbers: ExplodeNumbers) -> NumberTable:
        rows = [
            (kind, str(seed), f"{row[0]:.2f}", _shown(max(row)), _shown(row[-1]))
            for kind, seeds in numbers.losses.items()
            for seed, row in enumerate(seeds, 1)
        ]
        return NumberTable(("gradient", "seed", "first loss", "largest loss", "last loss"), rows)

    def draw(self, numbers: ExplodeNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        for kind, seeds in numbers.losses.items():
            color, line = _STYLES[kind]
            for number, row in enumerate(seeds):
                label = kind if number == 0 else None
                panel.plot(range(1, len(row) + 1), row, line, color=color, alpha=0.8, label=label)
        panel.axhline(_GUESS, color="0.4", ls=":", label="uniform guess")
        panel.set_yscale("log")
        panel.set_xlabel("update (lines: seeds)")
        panel.set_ylabel("loss, nats per token (at most $10^{12}$)")
        panel.grid()
        panel.legend()


def _shown(loss: float) -> str:
    return f"above {_HIGHEST:.0e}" if loss >= _HIGHEST else f"{loss:.3g}"


def _losses(settings: ExplodeSettings, seed: int, *, clip: float) -> list[float]:
    """Train a model and return the loss before every update."""
    model = untrained_model(
        "rnn-last",
        vocabulary=FIRST + DIGITS,
        seed=seed,
        width=settings.width,
        layers=1,
        activation="relu",
        init="orthogonal",
    )
    with torch.no_grad():
        recurrent_matrix(model).mul_(settings.gain)
    random = Random(seed)
    loss = LossModule(model.train(), smoothing=0.0, precision="float32")
    updater = Updater(model, TrainConfig.model_validate({"optimizer": "sgd", "clip": clip}))
    losses = []
    for _ in range(settings.steps):
        batch = pairs_batch([copy_pair(random, longest=settings.longest) for _ in range(32)])
        total = loss(batch).total
        total.backward()
        mean_loss = float(total.detach()) / batch.target_tokens
        losses.append(min(mean_loss, _HIGHEST) if math.isfinite(mean_loss) else _HIGHEST)
        updater.update(batch.target_tokens, settings.rate)
    return losses


LAB = Explode()
