"""Dot products that are not scaled saturate the softmax as vectors get wider."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field
from torch import Tensor

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
from seqloom.nn.attention import attend, dot_scores
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SMALL = 0.1  # of the scaled value
_PARTLY = 0.5


class ScaleSettings(Settings):
    widths: tuple[int, ...] = Field((16, 64, 256, 1024), min_length=1, description="widths d of query and key")
    keys: int = Field(64, ge=2, description="number of keys")
    queries: int = Field(2000, ge=2, description="random queries per width")
    seed: int = Field(1, description="seed of queries and keys")


class WidthNumbers(Numbers):
    width: int
    entropy: float  # mean over queries, without scaling, in nats
    scaled_entropy: float
    gradient: float  # median over queries of the norm of ∂α/∂e, without scaling
    scaled_gradient: float


class ScaleNumbers(Numbers):
    keys: int
    widths: list[WidthNumbers]


class Scale(Lab[ScaleSettings, ScaleNumbers]):
    name = "scale"
    claim = "Without the factor 1/√d, the softmax of attention saturates as d grows, and its gradient vanishes"
    note = Note(LECTURE_9, "Training, Scaled dot product")
    equation = (
        r"\alpha = \mathrm{softmax}\left(\frac{q^\top k_j}{\sqrt{d}}\right),\qquad"
        r" \mathrm{Var}(q^\top k) = d,\qquad \frac{\partial \alpha}{\partial e} = \mathrm{diag}(\alpha) - "
        r"\alpha \alpha^\top"
    )
    method = (
        "Draw queries and keys with independent standard normal coordinates. For every width compute the "
        "attention weights with and without scaling, their entropy, and the norm of the derivative of the "
        "weights with respect to the scores."
    )
    criterion = (
        "holds: at the largest width, mean entropy and median gradient without scaling are below 10 % of the "
        "scaled ones. Holds in part: one of them is, or both are below 50 %. Otherwise it does not hold here."
    )
    explanation = (
        "A sum of d products has a standard deviation of √d, so at d = 1,024 scores differ by about 32 and "
        "one key gets nearly all the weight. The gradient is judged by its median: a few queries have two "
        "keys with nearly equal scores, and these few have a large gradient, which the mean would report "
        "instead of the typical one."
    )
    variations = (
        Variation("widths=[1024,4096]", "Does the saturation become stronger?"),
        Variation("keys=1024", "Do more keys help?"),
        Variation("widths=[8]", "Why do models with 64 heads of width 8 lose less without scaling?"),
    )
    exercise = Exercise(
        "Keys and queries have coordinates with variance 1/4 instead of 1. By which factor must scores be "
        "divided so that their variance is 1?",
        "Each product has variance 1/16, the sum of d products d/16, so the factor is √d / 4. Initialisation "
        "and scaling belong together.",
    )
    seconds = 2
    settings = ScaleSettings
    numbers = ScaleNumbers
    full: ClassVar[dict[str, object]] = {"queries": 20_000, "widths": (16, 32, 64, 128, 256, 512, 1024, 2048)}

    def run(self, settings: ScaleSettings) -> ScaleNumbers:
        random = torch.Generator().manual_seed(settings.seed)
        measured = [_measure(settings, width, random) for width in settings.widths]
        return ScaleNumbers(keys=settings.keys, widths=measured)

    def judge(self, numbers: ScaleNumbers) -> Judgement:
        widest = max(numbers.widths, key=lambda one: one.width)
        entropy, gradient = _shares(widest)
        reason = (
            f"At d = {widest.width:,}, entropy without scaling is {entropy:.1%} and the median gradient "
            f"{gradient:.2%} of the scaled ones."
        )
        if max(entropy, gradient) < _SMALL:
            return Judgement(Verdict.HOLDS, reason)
        in_part = min(entropy, gradient) < _SMALL or max(entropy, gradient) < _PARTLY
        return Judgement(Verdict.IN_PART if in_part else Verdict.NOT_HERE, reason)

    def table(self, numbers: ScaleNumbers) -> NumberTable:
        rows = [
            (
                f"{one.width:,}",
                f"{one.entropy:.3f}",
                f"{one.scaled_entropy:.3f}",
                f"{one.gradient:.2e}",
                f"{one.scaled_gradient:.2e}",
            )
            for one in numbers.widths
        ]
        return NumberTable(("d", "entropy", "entropy, scaled", "gradient", "gradient, scaled"), rows)

    def draw(self, numbers: ScaleNumbers, figure: Figure, style: Style) -> None:
        left, right = figure.subplots(1, 2)
        widths = [one.width for one in numbers.widths]
        for panel, kind in ((left, "entropy"), (right, "gradient")):
            for name, label, color in (
                (kind, "q·k", VERMILLION),
                (f"scaled_{kind}", r"q·k / $\sqrt{d}$", BLUE),
            ):
                panel.plot(
                    widths, [getattr(one, name) for one in numbers.widths], "o-", color=color, label=label
                )
            panel.set_xscale("log", base=2)
            panel.set_xlabel("width d")
            panel.grid()
        left.set_ylim(bottom=0)
        left.set_ylabel(f"mean entropy of the weights on {numbers.keys} keys")
        right.set_yscale("log", nonpositive="mask")
        right.set_ylabel("median norm of the gradient")
        left.legend()


def _shares(one: WidthNumbers) -> tuple[float, float]:
    """Return entropy and gradient without scaling as shares of the scaled ones."""
    return one.entropy / one.scaled_entropy, one.gradient / one.scaled_gradient


def _measure(settings: ScaleSettings, width: int, random: torch.Generator) -> WidthNumbers:
    queries = torch.randn(settings.queries, width, generator=random)
    keys = torch.randn(settings.keys, width, generator=random)
    (entropy, gradient), (scaled_entropy, scaled_gradient) = (
        _saturation(attend(dot_scores(queries, keys, scaled=scaled), keys)[1].double())
        for scaled in (False, True)
    )
    return WidthNumbers(
        width=width,
        entropy=entropy,
        scaled_entropy=scaled_entropy,
        gradient=gradient,
        scaled_gradient=scaled_gradient,
    )


def _saturation(weights: Tensor) -> tuple[float, float]:
    """Return mean entropy of weights (queries, keys), and median norm of the derivative of the softmax."""
    entropy = torch.special.entr(weights).sum(dim=1).mean()
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(2) * weights.unsqueeze(1)
    return float(entropy), float(jacobian.norm(dim=(1, 2)).median())


LAB = Scale()
