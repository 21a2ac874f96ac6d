"""An LSTM cell with an open forget gate and a closed input gate keeps its content."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field

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
from seqloom.nn.cells import FORGET_GATE, Cell, RecurrentLayer
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INPUT_GATE = 0  # index among the gates, see FORGET_GATE
_KEPT, _NEARLY_KEPT = 1e-5, 1e-2  # relative change of the cell
_LOST = 0.99


class CellSettings(Settings):
    steps: int = Field(1000, ge=1, description="number of random inputs")
    gate_bias: float = Field(
        20.0, ge=0, description="bias of the forget gate, and minus that of the input gate"
    )
    forget_biases: tuple[float, ...] = Field(
        (0.0, 1.0, 3.0, 5.0),
        description="biases of the forget gate to compare with, the input gate still closed",
    )
    width: int = Field(64, ge=1, description="width of the cell")
    seed: int = Field(1, description="seed of weights, inputs and initial cell")


class CellCurve(Numbers):
    forget_bias: float
    changes: list[float]  # relative change of the cell after 1, 2, ... steps


class CellNumbers(Numbers):
    kept: CellCurve  # forget gate open, input gate closed
    others: list[CellCurve]


class CellKeeps(Lab[CellSettings, CellNumbers]):
    name = "cell-keeps"
    claim = "An LSTM cell keeps its content if the forget gate is 1 and the input gate is 0"
    note = Note(LECTURE_6, "How does LSTM solve vanishing gradients?")
    equation = (
        r"c_t = f_t \odot c_{t-1} + i_t \odot \tilde{c}_t,\qquad f_t = 1,\; i_t = 0 \;\Rightarrow\; c_t = c_0"
    )
    method = (
        "Set the biases of an LSTM layer with random weights so that the forget gate is open and the input "
        "gate closed. Feed random inputs and measure the change of the cell, relative to its initial content. "
        "Compare with smaller biases of the forget gate."
    )
    criterion = (
        "holds: after all steps the cell has changed by less than 0.001 % (10⁻⁵), and with a forget bias of 0 "
        "by more than 99 %. Holds in part: the change is below 1 %. Otherwise it does not hold here."
    )
    explanation = (
        "The sigmoid is 1 or 0 only in the limit, so the cell is kept for a time that grows with the bias, "
        "not for ever. A forget gate of f keeps half of the cell for log 0.5 / log f steps: 1 step for f = "
        "0.5, 103 steps for f = 0.9933, which is a bias of 5."
    )
    variations = (
        Variation("steps=20000", "Is the cell still unchanged after 20,000 inputs?"),
        Variation("gate_bias=8", "How large must the bias be?"),
        Variation("forget_biases=[1,2,4,6]", "After how many steps is half of the content lost?"),
    )
    exercise = Exercise(
        "Which forget bias keeps half of the cell for 100 steps, if weights and inputs are ignored?",
        "f^100 = 0.5 gives f = 0.99309 and the bias log(f / (1 − f)) = 4.97. The usual initial bias of 1 "
        "gives f = 0.731: half is lost after 2.2 steps, and training must do the rest.",
    )
    seconds = 1
    settings = CellSettings
    numbers = CellNumbers
    full: ClassVar[dict[str, object]] = {"steps": 5000, "width": 256}

    def run(self, settings: CellSettings) -> CellNumbers:
        return CellNumbers(
            kept=_measure(settings, settings.gate_bias),
            others=[_measure(settings, bias) for bias in settings.forget_biases],
        )

    def judge(self, numbers: CellNumbers) -> Judgement:
        change = numbers.kept.changes[-1]
        forgotten = max((one.changes[-1] for one in numbers.others), default=1.0)
        reason = (
            f"After {len(numbers.kept.changes):,} steps the cell has changed by {change:.1e}; with smaller "
            f"forget biases by up to {forgotten:.1%}."
        )
        if change < _KEPT and forgotten > _LOST:
            return Judgement(Verdict.HOLDS, reason)
        return Judgement(Verdict.IN_PART if change < _NEARLY_KEPT else Verdict.NOT_HERE, reason)

    def table(self, numbers: CellNumbers) -> NumberTable:
        rows = [
            (f"{one.forget_bias:g}", *(f"{one.changes[step - 1]:.2g}" for step in _steps(numbers)))
            for one in (*numbers.others, numbers.kept)
        ]
        return NumberTable(("forget bias", *(f"change after {step:,}" for step in _steps(numbers))), rows)

    def draw(self, numbers: CellNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        for one, color in zip((*numbers.others, numbers.kept), COLORS * 9, strict=False):
            steps = range(1, len(one.changes) + 1)
            panel.plot(steps, one.changes, color=color, label=f"forget bias {one.forget_bias:g}")
        panel.axhline(_KEPT, color="0.4", ls="--", label="criterion")
        panel.set_xscale("log")
        panel.set_yscale("log", nonpositive="mask")
        panel.set_xlabel("steps")
        panel.set_ylabel("relative change of the cell")
        panel.grid()
        panel.legend(loc="center right", ncols=2, bbox_to_anchor=(1, 0.6))


def _steps(numbers: CellNumbers) -> list[int]:
    """Return the steps that the table shows."""
    last = len(numbers.kept.changes)
    return sorted({step for step in (1, 10, 100) if step < last} | {last})


@torch.no_grad()
def _measure(settings: CellSettings, forget_bias: float) -> CellCurve:
    torch.manual_seed(settings.seed)
    layer = RecurrentLayer(Cell("lstm", kernel="steps"), settings.width, settings.width).double()
    weights = layer.weights()
    weights.input_bias.view(-1, settings.width)[FORGET_GATE] = forget_bias
    weights.input_bias.view(-1, settings.width)[_INPUT_GATE] = -settings.gate_bias
    weights.hidden_bias.zero_()
    inputs = torch.randn(settings.steps, 1, settings.width, dtype=torch.float64)
    cell = torch.randn(1, settings.width, dtype=torch.float64)
    state, changes = (torch.zeros_like(cell), cell), []
    for x in inputs:
        hidden, content = layer.cell.step(x, state, weights)
        state = (hidden, content)
        changes.append(float((content - cell).norm() / cell.norm()))
    return CellCurve(forget_bias=forget_bias, changes=changes)


LAB = CellKeeps()
