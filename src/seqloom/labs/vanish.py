"""Gradients of a recurrent network without non-linearity shrink or grow by a constant factor per step."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from seqloom.inspect.fresh_gradients import rate, scale_to_gain
from seqloom.inspect.gradients import measure_gradients
from seqloom.inspect.picture import COLORS, Style
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
from seqloom.nn.cells import Activation
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VOCABULARY = 40
_TOLERANCE = 0.01  # relative error of the rate
_LOOSE_TOLERANCE = 0.1


class VanishSettings(Settings):
    gains: tuple[float, ...] = Field((0.5, 1.0, 1.6), min_length=1, description="values of |λ|")
    matrix: Literal["orthogonal", "gaussian"] = Field("orthogonal", description="kind of W before scaling")
    activation: Activation = Field("identity", description="σ of the network")
    width: int = Field(32, ge=2, description="width of the states")
    steps: int = Field(40, ge=4, description="target length, so the largest distance plus 1")
    sentences: int = Field(4, ge=1, description="random sentences")
    seed: int = Field(1, description="seed of weights and sentences")


class GainNumbers(Numbers):
    gain: float  # |λ|
    norms: list[float]  # mean gradient norm at distances 0, 1, ..., relative to distance 0
    rate: float  # fitted factor per step

    @property
    def error(self) -> float:
        return abs(self.rate / self.gain - 1)


class VanishNumbers(Numbers):
    gains: list[GainNumbers]


class Vanish(Lab[VanishSettings, VanishNumbers]):
    name = "vanish"
    claim = "Without a non-linearity, the gradient of an RNN falls or grows as |λ| to the power of the distance"
    note = Note(LECTURE_6, "Vanishing gradients")
    equation = (
        r"\frac{\partial J_i}{\partial h_j} = \frac{\partial J_i}{\partial h_i} W^{\ell},\quad"
        r" \ell = i - j,\qquad \Vert g W^{\ell} \Vert \propto |\lambda|^{\ell}"
    )
    method = (
        "Build an RNN encoder-decoder with σ(x) = x whose decoder matrix W has eigenvalues of equal size |λ|. "
        "Measure the gradient of the loss at target step i with respect to the state at step j, and fit the "
        "factor per step on a logarithmic scale."
    )
    criterion = (
        "holds: every fitted factor is within 1 % of |λ|. Holds in part: within 10 %. Otherwise it does not "
        "hold here."
    )
    explanation = (
        "The state at step i depends on the state at step j only through i − j multiplications by W, so the "
        "gradient is multiplied by W once per step. A factor of 0.5 leaves a trillionth after 40 steps; a "
        "factor of 1.6 gives about ninety million. Only a factor of 1 transports the gradient unchanged, and "
        "training does not keep it there."
    )
    variations = (
        Variation(
            "activation=tanh",
            "How much faster does the gradient fall with the derivative of tanh in each step?",
        ),
        Variation(
            "matrix=gaussian steps=80",
            "Eigenvalues of different size: does the largest one decide at large distances?",
        ),
        Variation("gains=[0.95,1.05]", "How far does the gradient reach if |λ| is near 1?"),
    )
    exercise = Exercise(
        "A gradient below one millionth of its value at distance 0 no longer changes the weights. After how "
        "many steps is this the case for |λ| = 0.9?",
        "0.9^ℓ < 10⁻⁶ gives ℓ > 6 / −log₁₀ 0.9 = 131.1, so after 132 steps. Check: seqloom lab run vanish "
        "--set gains=[0.9] --set steps=140",
    )
    seconds = 2
    settings = VanishSettings
    numbers = VanishNumbers
    full: ClassVar[dict[str, object]] = {"width": 128, "steps": 100, "sentences": 16}

    def run(self, settings: VanishSettings) -> VanishNumbers:
        return VanishNumbers(gains=[_measure(settings, gain) for gain in settings.gains])

    def judge(self, numbers: VanishNumbers) -> Judgement:
        worst = max(numbers.gains, key=lambda one: one.error)
        reason = (
            f"The largest deviation is at |λ| = {worst.gain:g}: the gradient changes by a factor of "
            f"{worst.rate:.4f} per step, {worst.error:.2%} from |λ|."
        )
        if worst.error <= _TOLERANCE:
            return Judgement(Verdict.HOLDS, reason)
        return Judgement(Verdict.IN_PART if worst.error <= _LOOSE_TOLERANCE else Verdict.NOT_HERE, reason)

    def table(self, numbers: VanishNumbers) -> NumberTable:
        rows = [
            (f"{one.gain:g}", f"{one.rate:.4f}", f"{one.error:.2%}", f"{one.norms[-1]:.2e}")
            for one in numbers.gains
        ]
        last = len(numbers.gains[0].norms) - 1
        return NumberTable(("|λ|", "factor per step", "deviation", f"relative norm at distance {last}"), rows)

    def draw(self, numbers: VanishNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        for one, color in zip(numbers.gains, COLORS * len(numbers.gains), strict=False):
            distances = np.arange(len(one.norms))
            panel.plot(distances, one.norms, "o", color=color, label=f"measured, |λ| = {one.gain:g}")
            panel.plot(distances, one.gain**distances, "-", color=color)
        panel.plot([], [], "-", color="0.4", label=r"$|\lambda|^{\ell}$")
        panel.set_yscale("log", nonpositive="mask")
        panel.set_xlabel(r"distance $\ell = i - j$ in steps")
        panel.set_ylabel("gradient norm, relative to distance 0")
        panel.grid()
        panel.legend()


def _measure(settings: VanishSettings, gain: float) -> GainNumbers:
    model = untrained_model(
        "rnn-last",
        vocabulary=_VOCABULARY,
        seed=settings.seed,
        width=settings.width,
        layers=1,
        activation=settings.activation,
        init="orthogonal",
    )
    matrix = recurrent_matrix(model)
    if settings.matrix == "gaussian":
        _draw_gaussian(matrix, settings.seed)
    scale_to_gain(matrix, gain)
    batch = random_batch(
        sentences=settings.sentences,
        source_length=4,
        target_length=settings.steps,
        vocabulary=_VOCABULARY,
        seed=settings.seed,
    )
    curve = measure_gradients(model, [batch], max_distance=settings.steps - 1).curves["hidden"]
    return GainNumbers(gain=gain, norms=curve.ratio, rate=rate(curve.ratio))


@torch.no_grad()
def _draw_gaussian(matrix: Tensor, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    matrix.copy_(torch.randn(matrix.shape, generator=random))


LAB = Vanish()
