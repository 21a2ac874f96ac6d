"""Residual connections and layer normalisation keep the gradients of deep stacks alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from seqloom.inspect.fresh_gradients import norms_by_layer
from seqloom.inspect.picture import BLUE, GREEN, ORANGE, VERMILLION, Style
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
from seqloom.labs.framework.models import random_batch, untrained_model
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VOCABULARY = 40
_ALIVE, _DEAD = 0.1, 1e-3  # gradient at the first layer, relative to the last one
_BOTH, _RESIDUAL, _NORM, _NEITHER = "both", "residual only", "norm only", "neither"
_COLORS = {_BOTH: BLUE, _RESIDUAL: ORANGE, _NORM: GREEN, _NEITHER: VERMILLION}


class DepthSettings(Settings):
    layers: int = Field(24, ge=2, description="encoder layers")
    norm_place: Literal["before", "after"] = Field("before", description="norm before or after each sublayer")
    width: int = Field(64, ge=8, multiple_of=4, description="width of the vectors")
    sentences: int = Field(8, ge=1, description="random sentences of 20 tokens")
    seed: int = Field(1, description="seed of weights and sentences")


class DepthNumbers(Numbers):
    norms: dict[str, list[float]]  # by kind of stack: gradient norm with respect to the input of each layer

    def ratio(self, kind: str) -> float:
        """Gradient at the first layer, relative to the last one."""
        return self.norms[kind][0] / self.norms[kind][-1]


class Depth(Lab[DepthSettings, DepthNumbers]):
    name = "depth"
    claim = "Residual connections and layer normalisation keep the gradients of deep stacks alive"
    note = Note(SELF_ATTENTION, "Add & Norm")
    equation = (
        r"x^{(l)} = x^{(l-1)} + F(\mathrm{norm}(x^{(l-1)})):\qquad"
        r" \frac{\partial x^{(L)}}{\partial x^{(l)}} = I + \ldots"
    )
    method = (
        "Build an untrained Transformer encoder with 24 layers in four versions: with residual connections "
        "and norms, with one of them, and with neither. Compare the gradient of the loss with respect to the "
        "input of the first layer and of the last layer."
    )
    criterion = (
        "holds: the ratio first / last is above 0.1 with both, and below 0.001 with neither. Holds in part: "
        "one of the two. Otherwise it does not hold here."
    )
    explanation = (
        "Without both, every layer makes the signal and the gradient smaller, and 24 factors multiply. The "
        "two parts have different tasks. Norms alone restore the size of the signal, so the gradient survives "
        "at the start, but the input of a layer is not passed on. Residual connections alone pass everything "
        "on, and because each layer adds to the signal, the gradient explodes instead: both are needed. The "
        "gradient of a weight matrix would hide this, because it is a product of the gradient above the "
        "layer, which grows with depth, and the signal below it, which shrinks: first and last layer then "
        "have nearly equal, tiny gradients."
    )
    variations = (
        Variation("layers=6", "Is a shallow stack without both a problem?"),
        Variation(
            "norm_place=after", "Norms after the sublayers, as in the paper of 2017: is there a difference?"
        ),
        Variation("layers=48", "Twice the depth: what happens to residual connections without norms?"),
    )
    exercise = Exercise(
        "With neither, the gradient falls by the same factor in each of 24 layers and the ratio is 6 · "
        "10⁻¹⁰. Which ratio do you expect for 12 layers?",
        "There are 23 factors between the inputs of the first and the last of 24 layers, and 11 for 12 "
        "layers: (6 · 10⁻¹⁰)^(11/23) ≈ 4 · 10⁻⁵. Check: seqloom lab run depth --set layers=12",
    )
    seconds = 2
    settings = DepthSettings
    numbers = DepthNumbers
    full: ClassVar[dict[str, object]] = {"width": 256, "layers": 48}

    def run(self, settings: DepthSettings) -> DepthNumbers:
        place = settings.norm_place
        return DepthNumbers(
            norms={
                _BOTH: _norms(settings, residual=True, norm_place=place),
                _RESIDUAL: _norms(settings, residual=True, norm_place="none"),
                _NORM: _norms(settings, residual=False, norm_place=place),
                _NEITHER: _norms(settings, residual=False, norm_place="none"),
            }
        )

    def judge(self, numbers: DepthNumbers) -> Judgement:
        both, neither = numbers.ratio(_BOTH), numbers.ratio(_NEITHER)
        reason = (
            f"In {len(numbers.norms[_BOTH])} layers, the gradient at the first layer is {both:.2g} of that at "
            f"the last one with residual connections and norms, and {neither:.1e} of it with neither."
        )
        found = (both > _ALIVE) + (neither < _DEAD)
        return Judgement((Verdict.NOT_HERE, Verdict.IN_PART, Verdict.HOLDS)[found], reason)

    def table(self, numbers: DepthNumbers) -> NumberTable:
        rows = [
            (kind, f"{norms[0]:.2e}", f"{norms[-1]:.2e}", f"{numbers.ratio(kind):.2e}")
            for kind, norms in numbers.norms.items()
        ]
        return NumberTable(("stack", "gradient, first layer", "last layer", "ratio"), rows)

    def draw(self, numbers: DepthNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        for kind, norms in numbers.norms.items():
            relative = [norm / norms[-1] for norm in norms]
            panel.plot(range(1, len(norms) + 1), relative, "o-", color=_COLORS[kind], label=kind)
        panel.set_yscale("log", nonpositive="mask")
        panel.set_xlabel("layer, from the input")
        panel.set_ylabel("gradient norm, relative to the last layer")
        panel.locator_params(axis="x", integer=True)
        panel.grid()
        panel.legend()


def _norms(settings: DepthSettings, *, residual: bool, norm_place: str) -> list[float]:
    """Return the gradient norm with respect to the input of every encoder layer."""
    model = untrained_model(
        "transformer",
        vocabulary=_VOCABULARY,
        seed=settings.seed,
        width=settings.width,
        heads=4,
        ffn=4 * settings.width,
        layers=settings.layers,
        decoder_layers=1,
        residual=residual,
        norm_place=norm_place,
    ).double()
    batch = random_batch(
        sentences=settings.sentences,
        source_length=20,
        target_length=20,
        vocabulary=_VOCABULARY,
        seed=settings.seed,
    )
    return norms_by_layer(model, batch)


LAB = Depth()
