"""Self-attention without positions treats a sentence as a set of words."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.inspect.picture import BLUE, VERMILLION, Style
from seqloom.labs.framework.lab import (
    LECTURE_2,
    Exercise,
    Judgement,
    Lab,
    Note,
    Numbers,
    NumberTable,
    Variation,
    Verdict,
)
from seqloom.labs.framework.models import untrained_model
from seqloom.models.transformer import Transformer
from seqloom.nn.positions import PositionName
from seqloom.settings import Settings
from seqloom.types import UNK, Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EQUAL, _UNEQUAL = 1e-5, 1e-3  # largest difference of two vectors, relative to their norm
_JUDGED: tuple[PositionName, ...] = ("sinusoidal", "learned")  # the two kinds of the notes


class OrderSettings(Settings):
    sentence: str = Field("I study LLM", description="words, separated by spaces")
    order: tuple[int, ...] = Field((3, 2, 1), description="words of the second sentence, from 1")
    positions: tuple[PositionName, ...] = Field(
        ("none", "sinusoidal", "learned", "rotary", "relative", "t5", "alibi", "kerple"),
        description="kinds of positions to compare",
    )
    layers: int = Field(2, ge=1, description="encoder layers")
    width: int = Field(64, ge=8, multiple_of=8, description="width of the vectors")
    seed: int = Field(1, description="seed of the weights")


class OrderNumbers(Numbers):
    first: str
    second: str
    differences: dict[str, float]  # by kind of positions


class OrderBlind(Lab[OrderSettings, OrderNumbers]):
    name = "order-blind"
    claim = "Without positions, self-attention cannot distinguish “I study LLM” from “LLM study I”"
    note = Note(LECTURE_2, "Part 3.2, Position embeddings")
    equation = (
        r"f(P X) = P f(X)\quad \mathrm{for\ every\ permutation}\ P,\ \mathrm{but}\ f(P X + E) \neq P f(X + E)"
    )
    method = (
        "Encode a sentence and a permutation of it with an untrained Transformer encoder. Compare the vector "
        "of each word in both sentences, for every kind of positions."
    )
    criterion = (
        "holds: without positions every word has the same vector in both sentences (difference below 10⁻⁵), "
        "and with sinusoidal and with learned positions it has not (above 10⁻³). Holds in part: one of the "
        "two kinds differs. Otherwise it does not hold here."
    )
    explanation = (
        "Attention is a sum over keys, and a sum does not depend on the order. Not every kind of position "
        "repairs this pair of sentences: ALiBi and KERPLE use the distance |i − j| without its sign, and the "
        "second sentence is the first one in reverse, so all distances are equal and an encoder with them "
        "still cannot distinguish the two. In a decoder the causal mask breaks this symmetry."
    )
    variations = (
        Variation(
            "order=[2,1,3]", "A permutation that is not a reversal: which kinds still see no difference?"
        ),
        Variation("layers=6", "Do more layers help without positions?"),
        Variation(
            "sentence='the dog bites the man' order=[1,5,3,4,2]",
            "The same word twice: whose vector does it get?",
        ),
    )
    exercise = Exercise(
        "Why does an encoder with ALiBi give “I” the same vector in both sentences, and which change of the "
        "bias repairs this?",
        "The bias −m |i − j| is the same for i − j and j − i, and reversing a sentence only changes the "
        "signs of the distances. Different slopes m for keys on the left and on the right repair it; the "
        "learned vectors of relative positions do this.",
    )
    seconds = 1
    settings = OrderSettings
    numbers = OrderNumbers
    full: ClassVar[dict[str, object]] = {"layers": 6, "width": 512}

    def run(self, settings: OrderSettings) -> OrderNumbers:
        words = settings.sentence.split()
        order = _checked_order(settings.order, len(words))
        known = {word: UNK + 1 + number for number, word in enumerate(dict.fromkeys(words))}
        ids = torch.tensor([known[word] for word in words])
        differences: dict[str, float] = {}
        for kind in settings.positions:
            first = _encode(settings, kind, ids, len(known))
            second = _encode(settings, kind, ids[order], len(known))
            gaps = (second - first[order]).norm(dim=-1) / first[order].norm(dim=-1)
            differences[kind] = float(gaps.max())
        permuted = " ".join(words[place] for place in order)
        return OrderNumbers(first=settings.sentence, second=permuted, differences=differences)

    def judge(self, numbers: OrderNumbers) -> Judgement:
        blind = numbers.differences.get("none")
        seen = {kind: numbers.differences[kind] for kind in _JUDGED if kind in numbers.differences}
        if blind is None or len(seen) < len(_JUDGED):
            return Judgement(Verdict.IN_PART, f"Not measured: all of none, {' and '.join(_JUDGED)} are needed.")
        shown = ", ".join(f"with {kind} positions {one:.1e}" for kind, one in seen.items())
        reason = f"Largest difference of a word's vector: without positions {blind:.1e}, {shown}."
        unequal = [one > _UNEQUAL for one in seen.values()]
        if blind > _EQUAL or not any(unequal):
            return Judgement(Verdict.NOT_HERE, reason)
        return Judgement(Verdict.HOLDS if all(unequal) else Verdict.IN_PART, reason)

    def table(self, numbers: OrderNumbers) -> NumberTable:
        rows = [
            (kind, f"{one:.1e}", "no" if one < _EQUAL else "yes") for kind, one in numbers.differences.items()
        ]
        return NumberTable(("positions", "largest difference", "order visible"), rows)

    def draw(self, numbers: OrderNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        kinds = list(numbers.differences)
        values = [max(numbers.differences[kind], 1e-9) for kind in kinds]
        colors = [VERMILLION if value < _EQUAL else BLUE for value in values]
        panel.barh(kinds, values, color=colors, left=1e-9)
        panel.invert_yaxis()
        panel.axvline(_EQUAL, color="0.4", ls="--")
        panel.text(_EQUAL, -0.6, " equal below this line", color="0.3", va="bottom", ha="right")
        panel.set_xscale("log")
        panel.set_xlabel(f"difference of a word's vector in “{numbers.first}” and “{numbers.second}”")
        panel.set_ylabel("positions")
        panel.grid(axis="x")


def _checked_order(order: tuple[int, ...], words: int) -> Tensor:
    if sorted(order) != list(range(1, words + 1)):
        raise SeqloomError(
            f"order-blind.order must have each number from 1 to {words} once, got {list(order)}.",
            f"e.g. --set order={list(range(words, 0, -1))}",
        )
    return torch.tensor(order) - 1


@torch.no_grad()
def _encode(settings: OrderSettings, kind: PositionName, ids: Tensor, words: int) -> Tensor:
    """Return the vector of every word, (S, D)."""
    model = untrained_model(
        "transformer",
        vocabulary=UNK + 1 + words,
        seed=settings.seed,
        positions=kind,
        layers=settings.layers,
        width=settings.width,
        heads=4,
        ffn=2 * settings.width,
    )
    batch = Batch(source=ids.unsqueeze(0), source_lengths=torch.tensor([len(ids)]), index=torch.tensor([0]))
    return cast(Transformer, model).encode(batch)[0]


LAB = OrderBlind()
