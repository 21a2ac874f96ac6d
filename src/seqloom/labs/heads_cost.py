"""Several attention heads have the parameters and the FLOPs of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field

from seqloom.errors import SeqloomError
from seqloom.inspect.cost_measure import with_flops
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
from seqloom.nn.multihead import SelfAttention
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOOSE_TOLERANCE = 0.05


class HeadsSettings(Settings):
    heads: tuple[int, ...] = Field((1, 2, 4, 8), min_length=2, description="numbers of heads to compare")
    width: int = Field(256, ge=1, description="width d of the vectors")
    head_width: int | None = Field(None, ge=1, description="width of a head; None = d / heads")
    length: int = Field(64, ge=1, description="positions n")


class HeadNumbers(Numbers):
    heads: int
    parameters: int
    flops: int  # of one forward pass
    weights: int  # attention weights, each from one exponential function


class HeadsNumbers(Numbers):
    measured: list[HeadNumbers]


class HeadsCost(Lab[HeadsSettings, HeadsNumbers]):
    name = "heads-cost"
    claim = "Several attention heads cost as much as one head"
    note = Note(LECTURE_9, "Multi-headed attention")
    equation = (
        r"Q_\ell, K_\ell, V_\ell \in R^{d \times d/h}:\qquad h \cdot n \cdot d \cdot \frac{d}{h} = n d^2,"
        r"\qquad h \cdot n^2 \cdot \frac{d}{h} = n^2 d"
    )
    method = (
        "Build self-attention of one width with different numbers of heads. Count the parameters, and let "
        "torch count the FLOPs of all matrix products in a forward pass."
    )
    criterion = (
        "holds: parameters and FLOPs are equal for all numbers of heads. Holds in part: they differ by at "
        "most 5 %. Otherwise it does not hold here."
    )
    explanation = (
        "With h heads, a head has the width d / h, so the projections and the n² scores of all heads together "
        "have as many products as those of one head. The softmax is not a matrix product and does grow: each "
        "head has its own n² weights, so h heads evaluate h n² exponential functions and store h n² numbers "
        "if the weights are kept. The claim is about matrix products, which dominate as long as d / h is not "
        "small."
    )
    variations = (
        Variation("head_width=64", "Heads of a fixed width: which cost grows now?"),
        Variation("heads=[1,16,64,256]", "Up to heads of width 1: what still grows?"),
        Variation("length=512", "Does the number of positions matter?"),
    )
    exercise = Exercise(
        "The notes divide the scores of h heads by √(d/h). By how much do unscaled scores of one head and of "
        "eight heads differ in standard deviation, if queries and keys have independent coordinates of "
        "variance 1?",
        "A score is a sum of d / h products, so its standard deviation is √(d/h): with eight heads it is "
        "smaller by the factor √8 ≈ 2.8. See the lab scale.",
    )
    seconds = 1
    settings = HeadsSettings
    numbers = HeadsNumbers
    full: ClassVar[dict[str, object]] = {"width": 1024, "length": 512, "heads": (1, 2, 4, 8, 16, 32)}

    def run(self, settings: HeadsSettings) -> HeadsNumbers:
        return HeadsNumbers(measured=[_measure(settings, heads) for heads in settings.heads])

    def judge(self, numbers: HeadsNumbers) -> Judgement:
        parameters = _spread([one.parameters for one in numbers.measured])
        flops = _spread([one.flops for one in numbers.measured])
        reason = (
            f"From {numbers.measured[0].heads} to {numbers.measured[-1].heads} heads, parameters differ by "
            f"{parameters:.1%} and FLOPs by {flops:.1%}."
        )
        if parameters == flops == 0:
            return Judgement(Verdict.HOLDS, reason)
        in_part = max(parameters, flops) <= _LOOSE_TOLERANCE
        return Judgement(Verdict.IN_PART if in_part else Verdict.NOT_HERE, reason)

    def table(self, numbers: HeadsNumbers) -> NumberTable:
        rows = [
            (str(one.heads), f"{one.parameters:,}", f"{one.flops:,}", f"{one.weights:,}")
            for one in numbers.measured
        ]
        return NumberTable(("heads", "parameters", "FLOPs", "attention weights"), rows)

    def draw(self, numbers: HeadsNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        heads = [one.heads for one in numbers.measured]
        first = numbers.measured[0]
        for name, label, color, line in (
            ("parameters", "parameters", BLUE, "o-"),
            ("flops", "FLOPs of matrix products", BLUE, "s--"),
            ("weights", "attention weights (exponentials)", VERMILLION, "^-"),
        ):
            values = [getattr(one, name) / getattr(first, name) for one in numbers.measured]
            panel.plot(heads, values, line, color=color, label=label)
        panel.set_xscale("log", base=2)
        panel.set_xticks(heads, [str(one) for one in heads])
        panel.minorticks_off()
        panel.set_ylim(bottom=0)
        panel.set_xlabel("heads h")
        panel.set_ylabel(f"relative to h = {first.heads}")
        panel.grid()
        panel.legend()


def _spread(counts: list[int]) -> float:
    """Return the difference between the largest and the smallest count, relative to the smallest."""
    return (max(counts) - min(counts)) / min(counts)


@torch.no_grad()
def _measure(settings: HeadsSettings, heads: int) -> HeadNumbers:
    if settings.head_width is None and settings.width % heads:
        raise SeqloomError(
            f"heads-cost.heads={heads} does not divide heads-cost.width={settings.width}.",
            "choose numbers of heads that divide the width, or set head_width",
        )
    head = settings.head_width or settings.width // heads
    layer = SelfAttention(settings.width, heads, head, head)
    _, flops = with_flops(lambda: layer(torch.randn(1, settings.length, settings.width)))
    return HeadNumbers(
        heads=heads,
        parameters=sum(weight.numel() for weight in layer.parameters()),
        flops=flops,
        weights=heads * settings.length**2,
    )


LAB = HeadsCost()
