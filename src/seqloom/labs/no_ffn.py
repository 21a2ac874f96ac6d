"""Without feed-forward layers, stacked self-attention only averages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

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
from seqloom.nn.blocks import BlockShape, EncoderBlock
from seqloom.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INSIDE, _OUTSIDE = 1e-6, 1e-2  # deviation from an average


class NoFfnSettings(Settings):
    layers: int = Field(6, ge=1, description="attention layers")
    tokens: int = Field(8, ge=2, description="tokens; fewer than the width, so that weights are unique")
    width: int = Field(64, ge=2, description="width of the vectors")
    score_scale: float = Field(4.0, gt=0, description="factor on the query weights: larger = more selective")
    seed: int = Field(1, description="seed of tokens and weights")


class LayerNumbers(Numbers):
    layer: int
    attention: float  # largest deviation of an output from an average of the values
    feed_forward: float  # the same with a feed-forward layer in every block
    spread: float  # largest distance between two outputs without feed-forward layers, relative to the values


class NoFfnNumbers(Numbers):
    layers: list[LayerNumbers]


class NoFfn(Lab[NoFfnSettings, NoFfnNumbers]):
    name = "no-ffn"
    claim = "Without feed-forward layers, stacked self-attention only averages the values again and again"
    note = Note(LECTURE_9, "Issue: No nonlinearities")
    equation = (
        r"o_i = \sum_j \alpha_{ij} v_j,\quad \alpha_{ij} \geq 0,\quad \sum_j \alpha_{ij} = 1"
        r"\quad\Rightarrow\quad A^{(L)} \cdots A^{(1)} X V^{(1)} \cdots V^{(L)}"
    )
    method = (
        "Stack self-attention layers with one head, without residual connections and norms. After each layer, "
        "write every output as a weighted sum of the values, i.e. of the inputs multiplied by the value "
        "matrices so far. An output is an average if the weights are not negative and sum to 1. Repeat with a "
        "feed-forward layer after each attention layer."
    )
    criterion = (
        "holds: without feed-forward layers all outputs are averages after every layer (deviation below "
        "10⁻⁶), with them none of the layers has this property (above 10⁻²). Holds in part: without them, "
        "averages in the first layer only. Otherwise it does not hold here."
    )
    explanation = (
        "A product of matrices with non-negative rows that sum to 1 has the same property, so many layers "
        "average like one, and the outputs approach each other. Averaging does not mean that the map is "
        "linear: the weights come from a softmax of the input, which is a non-linear function. What is "
        "missing is a non-linear function of the values, and the feed-forward layer is one."
    )
    variations = (
        Variation("layers=24", "How similar do the outputs become?"),
        Variation("score_scale=40", "Nearly one-hot weights: does averaging still bring outputs together?"),
        Variation("tokens=2", "Two tokens: on which line do all outputs lie?"),
    )
    exercise = Exercise(
        "A Transformer block has a residual connection around attention. Is its output without a "
        "feed-forward layer still an average of values?",
        "No. The output is x + Σ α V x, which is a sum of two vectors and in general outside the convex hull "
        "of the values; but for fixed weights α it is still linear in x.",
    )
    seconds = 1
    settings = NoFfnSettings
    numbers = NoFfnNumbers
    full: ClassVar[dict[str, object]] = {"layers": 24, "width": 256, "tokens": 32}

    def run(self, settings: NoFfnSettings) -> NoFfnNumbers:
        torch.manual_seed(settings.seed)
        inputs = torch.randn(settings.tokens, settings.width, dtype=torch.float64)
        averaged, transformed, values = inputs, inputs, inputs
        found = []
        for layer in range(1, settings.layers + 1):
            plain, full = _blocks(settings)
            averaged, transformed = _apply(plain, averaged), _apply(full, transformed)
            values = values @ _value_matrix(plain)
            found.append(
                LayerNumbers(
                    layer=layer,
                    attention=_deviation(averaged, values),
                    feed_forward=_deviation(transformed, values),
                    spread=float(torch.pdist(averaged).max() / torch.pdist(values).max()),
                )
            )
        return NoFfnNumbers(layers=found)

    def judge(self, numbers: NoFfnNumbers) -> Judgement:
        inside = [one.attention < _INSIDE for one in numbers.layers]
        outside = min(one.feed_forward for one in numbers.layers)
        reason = (
            "Outputs deviate from averages of the values by at most "
            f"{max(one.attention for one in numbers.layers):.1e} without feed-forward layers, and by at least "
            f"{outside:.1e} with them."
        )
        if outside < _OUTSIDE or not inside[0]:
            return Judgement(Verdict.NOT_HERE, reason)
        return Judgement(Verdict.HOLDS if all(inside) else Verdict.IN_PART, reason)

    def table(self, numbers: NoFfnNumbers) -> NumberTable:
        rows = [
            (str(one.layer), f"{one.attention:.1e}", f"{one.feed_forward:.1e}", f"{one.spread:.1e}")
            for one in numbers.layers
        ]
        columns = ("layer", "deviation, attention only", "with feed-forward", "spread, attention only")
        return NumberTable(columns, rows)

    def draw(self, numbers: NoFfnNumbers, figure: Figure, style: Style) -> None:
        left, right = figure.subplots(1, 2)
        layers = [one.layer for one in numbers.layers]
        for name, label, color in (
            ("feed_forward", "with feed-forward layers", BLUE),
            ("attention", "attention only", VERMILLION),
        ):
            values = [max(getattr(one, name), 1e-16) for one in numbers.layers]
            left.plot(layers, values, "o-", color=color, label=label)
        left.axhline(_INSIDE, color="0.4", ls="--", label="an average below this line")
        left.set_ylabel("deviation from an average of values")
        right.plot(layers, [one.spread for one in numbers.layers], "o-", color=VERMILLION)
        right.set_ylabel("largest distance of two outputs,\nattention only, relative to values")
        for panel in (left, right):
            panel.set_yscale("log")
            panel.set_xlabel("layer")
            panel.locator_params(axis="x", integer=True)
            panel.grid()
        left.legend()


def _blocks(settings: NoFfnSettings) -> tuple[EncoderBlock, EncoderBlock]:
    """Return two blocks with the same attention, without and with a feed-forward layer."""
    shape = BlockShape(
        settings.width,
        1,
        settings.width,
        settings.width,
        ffn=4 * settings.width,
        dropout=0.0,
        activation="none",
        norm_place="none",
        residual=False,
        attention_bias=False,
    )
    plain, full = EncoderBlock(shape).double(), EncoderBlock(replace(shape, activation="relu")).double()
    with torch.no_grad():
        query, key, value = plain.attention.query_key_value.weight.chunk(3)
        for matrix in (query, key, value, plain.attention.output.weight):
            nn.init.orthogonal_(matrix)  # values keep their norms
        query *= settings.score_scale
    full.attention.load_state_dict(plain.attention.state_dict())
    return plain, full


@torch.no_grad()
def _apply(block: EncoderBlock, x: Tensor) -> Tensor:
    out: Tensor = block(x.unsqueeze(0), torch.ones(1, len(x), dtype=torch.bool))[0]
    return out


def _value_matrix(block: EncoderBlock) -> Tensor:
    """Return the matrix from the input to what a layer averages: value and output projection."""
    width = block.attention.output.out_features
    value = block.attention.query_key_value.weight[-width:]
    return (block.attention.output.weight @ value).T.detach()


def _deviation(outputs: Tensor, values: Tensor) -> float:
    """Return how much the weights that express outputs as sums of values violate the rules of an average.

    The weights are found by least squares. The result is the largest of the remaining error, the difference of
    a sum of weights from 1, and the size of a negative weight.
    """
    weights = torch.linalg.lstsq(values.T, outputs.T).solution  # (values, outputs)
    error = (values.T @ weights - outputs.T).norm(dim=0) / outputs.norm(dim=1)
    return float(max(error.max(), (weights.sum(dim=0) - 1).abs().max(), (-weights).max()))


LAB = NoFfn()
