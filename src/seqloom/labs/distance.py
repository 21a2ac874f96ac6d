"""Gradients over a distance: many steps in a recurrent network, one layer in self-attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from seqloom.inspect.gradients import measure_gradients
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
from seqloom.labs.framework.models import random_batch, untrained_model
from seqloom.models.base import SequenceModel
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VOCABULARY = 40
_MANY, _FEW = 100.0, 10.0  # factor by which the gradient falls


class DistanceSettings(Settings):
    cell: Literal["rnn", "gru", "lstm"] = Field("lstm", description="cell of the recurrent model")
    forget_bias: float = Field(0.0, description="added to the bias of the LSTM's forget gates")
    distance: int = Field(64, ge=2, description="distance in tokens")
    width: int = Field(32, ge=8, multiple_of=4, description="width of both models")
    layers: int = Field(2, ge=1, description="decoder blocks of the Transformer")
    sentences: int = Field(2, ge=1, description="random sentences")
    seed: int = Field(1, description="seed of weights and sentences")


class DistanceNumbers(Numbers):
    recurrent: list[float]  # mean gradient norm with respect to the input at distances 1, 2, ...
    attention: list[float]

    @property
    def falls(self) -> tuple[float, float]:
        """Factors by which the gradients of both models fall from distance 1 to the largest one."""
        return tuple(  # type: ignore[return-value]
            norms[0] / max(norms[-1], 1e-300) for norms in (self.recurrent, self.attention)
        )


class Distance(Lab[DistanceSettings, DistanceNumbers]):
    name = "distance"
    claim = "Distant words are O(n) steps apart in a recurrent network, and O(1) layers in self-attention"
    note = Note(LECTURE_9, "Issues with recurrent models")
    equation = (
        r"\mathrm{RNN:}\ \ \frac{\partial J_i}{\partial x_j} ="
        r" \frac{\partial J_i}{\partial h_i} \prod_{t=j+1}^{i} \frac{\partial h_t}{\partial h_{t-1}}"
        r" \frac{\partial h_j}{\partial x_j}\qquad"
        r" \mathrm{attention:}\ \ \frac{\partial o_i}{\partial v_j} = \alpha_{ij} I"
    )
    method = (
        "Take an untrained LSTM and an untrained Transformer decoder of the same width. Measure the gradient "
        "of the loss at target position i with respect to the input vector at position j, by distance i − j. "
        "Compare distance 1 with the largest one; distance 0 is the word itself, which both read directly."
    )
    criterion = (
        "holds: over 64 tokens, the gradient falls by a factor above 100 in the recurrent network and below "
        "10 in self-attention. Holds in part: one of the two. Otherwise it does not hold here."
    )
    explanation = (
        "In the recurrent network, each step multiplies the gradient by the derivative of one state with "
        "respect to the previous one, whose norm is below 1 here. In self-attention any two words are one "
        "layer apart: the gradient is multiplied by a weight α, on average 1/n, and not by a product of n "
        "factors. How fast it falls in the LSTM depends on its forget gates: an untrained gate is about 0.5 "
        "open, so half of the gradient is lost in each step; the first variation opens the gates."
    )
    variations = (
        Variation("forget_bias=6", "Open forget gates: how far does the gradient of the LSTM reach?"),
        Variation("cell=rnn", "Is a simple RNN worse than an untrained LSTM?"),
        Variation("distance=128", "Twice the distance: by which factor does each gradient fall now?"),
    )
    exercise = Exercise(
        "Attention weights are about 1/n on average. By which factor does the gradient of self-attention "
        "fall between distance 1 and 64 for this reason alone, if the position i is 65?",
        "By none: with equal weights, all positions of one query have the weight 1/65. What falls in the "
        "figure is the mean over queries: a small distance also occurs with short contexts, whose weights "
        "are larger.",
    )
    seconds = 4
    settings = DistanceSettings
    numbers = DistanceNumbers
    full: ClassVar[dict[str, object]] = {"width": 128, "sentences": 8}

    def run(self, settings: DistanceSettings) -> DistanceNumbers:
        recurrent = untrained_model(
            "rnn-last",
            vocabulary=_VOCABULARY,
            seed=settings.seed,
            width=settings.width,
            layers=1,
            cell=settings.cell,
            forget_bias=settings.forget_bias,
        )
        attention = untrained_model(
            "transformer",
            vocabulary=_VOCABULARY,
            seed=settings.seed,
            width=settings.width,
            layers=settings.layers,
            heads=4,
            ffn=2 * settings.width,
        )
        return DistanceNumbers(recurrent=_norms(recurrent, settings), attention=_norms(attention, settings))

    def judge(self, numbers: DistanceNumbers) -> Judgement:
        recurrent, attention = numbers.falls
        reason = (
            f"From distance 1 to {len(numbers.recurrent)}, the gradient falls by a factor of {recurrent:.3g} "
            f"in the recurrent network and {attention:.3g} in self-attention."
        )
        found = (recurrent > _MANY) + (attention < _FEW)
        return Judgement((Verdict.NOT_HERE, Verdict.IN_PART, Verdict.HOLDS)[found], reason)

    def table(self, numbers: DistanceNumbers) -> NumberTable:
        shown = sorted({1, 2, 4, 8, 16, 32, len(numbers.recurrent)} & set(range(len(numbers.recurrent) + 1)))
        rows = [
            (str(at), f"{numbers.recurrent[at - 1]:.2e}", f"{numbers.attention[at - 1]:.2e}") for at in shown
        ]
        return NumberTable(("distance", "gradient norm, recurrent", "gradient norm, self-attention"), rows)

    def draw(self, numbers: DistanceNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        for norms, label, color in (
            (numbers.attention, "self-attention", BLUE),
            (numbers.recurrent, "recurrent network", VERMILLION),
        ):
            panel.plot(range(1, len(norms) + 1), [one / norms[0] for one in norms], color=color, label=label)
        panel.set_yscale("log", nonpositive="mask")
        panel.set_xlabel("distance i − j in tokens")
        panel.set_ylabel("gradient norm, relative to distance 1")
        panel.grid()
        panel.legend()


def _norms(model: SequenceModel, settings: DistanceSettings) -> list[float]:
    batch = random_batch(
        sentences=settings.sentences,
        source_length=4,
        target_length=settings.distance + 1,
        vocabulary=_VOCABULARY,
        seed=settings.seed,
    )
    return measure_gradients(model, [batch], max_distance=settings.distance).curves["target"].norm[1:]


LAB = Distance()
