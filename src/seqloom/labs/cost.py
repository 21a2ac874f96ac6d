"""Cost of self-attention and of recurrent layers by length, and of attention for long inputs."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.inspect.cost_measure import with_flops
from seqloom.inspect.picture import BLUE, GREEN, ORANGE, VERMILLION, Style
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
from seqloom.nn.cells import Cell, RecurrentLayer
from seqloom.nn.longattention import BlockSparseAttention, LinformerAttention
from seqloom.nn.multihead import SelfAttention
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ATTENTION, _RECURRENT, _LINFORMER, _BIGBIRD = "self-attention", "LSTM", "Linformer", "BigBird"
_COLORS = {_ATTENTION: VERMILLION, _RECURRENT: BLUE, _LINFORMER: GREEN, _BIGBIRD: ORANGE}
_QUADRATIC, _LINEAR = 1.8, 1.1  # exponents of n
_HEADS = 4
_REPEATS = 3  # of a time measurement


class CostSettings(Settings):
    lengths: tuple[int, ...] = Field((16, 32, 64, 128, 256, 512, 1024), min_length=2, description="lengths n")
    width: int = Field(32, ge=4, multiple_of=4, description="width d of the vectors")
    rank: int = Field(16, ge=1, description="projected keys of Linformer")
    block: int = Field(16, ge=1, description="positions per block of BigBird")


class CostNumbers(Numbers):
    width: int
    lengths: list[int]
    flops: dict[str, list[int]]  # by kind of layer, one number per length
    seconds: dict[str, list[float]]

    def exponent(self, kind: str) -> float:
        """Exponent of n between the two largest lengths."""
        flops = self.flops[kind]
        return math.log(flops[-1] / flops[-2]) / math.log(self.lengths[-1] / self.lengths[-2])

    @property
    def predicted_crossing(self) -> int:
        """Length at which self-attention costs as much as an LSTM: 8 n d² + 4 n² d = 16 n d²."""
        return 2 * self.width

    @property
    def crossing(self) -> float:
        """Measured length at which both have equal FLOPs, on logarithmic axes; infinite if there is none."""
        logs = [math.log(a / b) for a, b in zip(self.flops[_ATTENTION], self.flops[_RECURRENT], strict=True)]
        for (low, high), (before, after) in zip(pairwise(self.lengths), pairwise(logs), strict=True):
            if before <= 0 < after:
                return low * math.exp(-before / (after - before) * math.log(high / low))
        return math.inf


class AttentionCost(Lab[CostSettings, CostNumbers]):
    name = "cost"
    claim = "Self-attention costs n²d and a recurrent layer nd²; Linformer and BigBird are nearly linear in n"
    note = Note(LECTURE_9, "Drawbacks")
    equation = (
        r"\mathrm{attention:}\ 8 n d^2 + 4 n^2 d,\qquad \mathrm{LSTM:}\ 16 n d^2"
        r"\qquad\Rightarrow\qquad \mathrm{equal\ at}\ n = 2d"
    )
    method = (
        "Run one layer of each kind at growing lengths and let torch count the FLOPs of its matrix products. "
        "Compute the exponent of n between the two largest lengths, and the length at which attention becomes "
        "more expensive than an LSTM. Processor times are reported, too, but not judged."
    )
    criterion = (
        "holds: the exponent of self-attention is above 1.8, those of the LSTM, Linformer and BigBird are "
        "below 1.1, and the crossing is within a factor of 2 (one step of the lengths) of the predicted n = "
        "2d. Holds in part: only the exponents. Otherwise it does not hold here."
    )
    explanation = (
        "The projections to queries, keys, values and output cost 8nd², scores and weighted sums 4n²d; four "
        "gates of an LSTM cost 16nd². Below n = 2d, attention has fewer operations than an LSTM. FLOPs are "
        "not time: an LSTM computes n small products one after the other, so its layer is slower than "
        "attention far beyond n = 2d, and BigBird copies blocks of keys. This is the second half of the claim "
        "of the notes, that recurrent networks cannot be computed in parallel."
    )
    variations = (
        Variation("width=64", "Twice the width: where is the crossing now?"),
        Variation("rank=128", "Linformer with more keys: from which length on is it cheaper than attention?"),
        Variation("lengths=[16,32,64]", "Short sentences: is attention quadratic there?"),
    )
    exercise = Exercise(
        "A Transformer layer also has a feed-forward layer of inner width 4d, which costs 16nd². From which "
        "length on does it cost less than scores and weighted sums?",
        "16nd² = 4n²d gives n = 4d: for d = 512, from 2,048 tokens on. For most sentences the feed-forward "
        "layer is the larger part.",
    )
    seconds = 3
    settings = CostSettings
    numbers = CostNumbers
    full: ClassVar[dict[str, object]] = {"lengths": (64, 128, 256, 512, 1024, 2048, 4096, 8192), "width": 128}

    def run(self, settings: CostSettings) -> CostNumbers:
        flops: dict[str, list[int]] = {kind: [] for kind in _COLORS}
        seconds: dict[str, list[float]] = {kind: [] for kind in _COLORS}
        lengths = sorted(set(settings.lengths))
        for length in lengths:
            x = torch.randn(1, length, settings.width)
            for kind, layer in _layers(settings, length).items():
                found = _measure(layer, x)
                flops[kind].append(found[0])
                seconds[kind].append(found[1])
        return CostNumbers(width=settings.width, lengths=lengths, flops=flops, seconds=seconds)

    def judge(self, numbers: CostNumbers) -> Judgement:
        exponents = {kind: numbers.exponent(kind) for kind in numbers.flops}
        shown = ", ".join(f"{kind} {one:.2f}" for kind, one in exponents.items())
        crossing = numbers.crossing
        where = f"at n = {crossing:.0f}" if math.isfinite(crossing) else "at none of the lengths"
        reason = (
            f"Exponents of n: {shown}. Attention and LSTM have equal FLOPs {where}; predicted: "
            f"{numbers.predicted_crossing}."
        )
        others = [one for kind, one in exponents.items() if kind != _ATTENTION]
        if exponents[_ATTENTION] < _QUADRATIC or max(others) > _LINEAR:
            return Judgement(Verdict.NOT_HERE, reason)
        agrees = 0.5 <= crossing / numbers.predicted_crossing <= 2
        return Judgement(Verdict.HOLDS if agrees else Verdict.IN_PART, reason)

    def table(self, numbers: CostNumbers) -> NumberTable:
        timed = (_ATTENTION, _RECURRENT)
        rows = [
            (
                f"{length:,}",
                *(f"{flops[i] / 1e6:,.1f}" for flops in numbers.flops.values()),
                *(f"{1000 * numbers.seconds[kind][i]:,.1f}" for kind in timed),
            )
            for i, length in enumerate(numbers.lengths)
        ]
        first, *others = numbers.flops
        columns = ("n", f"MFLOPs: {first}", *others, *(f"{kind}, ms" for kind in timed))
        return NumberTable(columns, rows)

    def draw(self, numbers: CostNumbers, figure: Figure, style: Style) -> None:
        left, right = figure.subplots(1, 2)
        for kind, color in _COLORS.items():
            left.plot(numbers.lengths, numbers.flops[kind], "o-", color=color, label=kind)
            milliseconds = [1000 * one for one in numbers.seconds[kind]]
            right.plot(numbers.lengths, milliseconds, "o-", color=color, label=kind)
        left.axvline(numbers.predicted_crossing, color="0.4", ls="--")
        left.set_ylabel("FLOPs (dashed: n = 2d)")
        right.set_ylabel("processor time, milliseconds")
        for panel in (left, right):
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            panel.set_xlabel("length n")
            panel.grid()
        left.legend()


def _layers(settings: CostSettings, length: int) -> dict[str, nn.Module]:
    width, head = settings.width, settings.width // _HEADS
    shape = (width, _HEADS, head, head)
    return {
        _ATTENTION: SelfAttention(*shape),
        _RECURRENT: RecurrentLayer(Cell("lstm", kernel="steps"), width, width),
        _LINFORMER: LinformerAttention(*shape, rank=settings.rank, max_length=length),
        _BIGBIRD: BlockSparseAttention(*shape, block=settings.block, global_blocks=1, random_blocks=2),
    }


@torch.no_grad()
def _measure(layer: nn.Module, x: Tensor) -> tuple[int, float]:
    """Return FLOPs, and the processor time of the fastest of several runs."""
    _, flops = with_flops(lambda: layer(x))
    times = []
    for _ in range(_REPEATS):
        start = time.process_time()
        layer(x)
        times.append(time.process_time() - start)
    return flops, min(times)


LAB = AttentionCost()
