"""The most probable output is too short, and length normalisation repairs it."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from seqloom.decode.beam_search import beam_search
from seqloom.decode.options import BeamOptions
from seqloom.decode.ranking import Ranking
from seqloom.inspect.picture import BLUE, VERMILLION, Style
from seqloom.labs.framework.lab import (
    LECTURE_7,
    Exercise,
    Judgement,
    Lab,
    Note,
    Numbers,
    NumberTable,
    Variation,
    Verdict,
)
from seqloom.labs.framework.table_model import WORDS, TableModel
from seqloom.settings import Settings
from seqloom.types import EOS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHORT, _REPAIRED = 0.8, 0.1  # mean length relative to the expected one, and its deviation
_EXTRA_STEPS = 6


class LengthSettings(Settings):
    sentences: int = Field(40, ge=2, description="sentences; the expected lengths are spread evenly")
    longest: int = Field(16, ge=2, description="largest number of words before the end becomes probable")
    words: int = Field(20, ge=2, description="words in the vocabulary")
    early_end: float = Field(
        0.01, gt=0, lt=0.5, description="probability that a sentence ends too early, per step"
    )
    end: float = Field(0.7, gt=0, lt=1, description="probability of the end, once it is due")
    sharpness: float = Field(2.0, ge=0, description="standard deviation of the logits of words")
    beam: int = Field(100, ge=1, description="beam, wide enough for all plausible lengths")
    alpha: float = Field(1.0, ge=0, description="exponent α of the normalisation: log P / |y|^α")
    seed: int = Field(1, description="seed of the distributions")


class LengthNumbers(Numbers):
    expected: list[float]  # by sentence: expected length in words under the model
    plain: list[int]  # length of the output with the highest probability
    normalised: list[int]  # length of the output with the highest normalised log-probability


class LengthBias(Lab[LengthSettings, LengthNumbers]):
    name = "length-bias"
    claim = "Longer hypotheses have lower scores, and normalising by the length repairs it"
    note = Note(LECTURE_7, "Beam search decoding, Finishing up")
    equation = (
        r"\log P(y \mid x) = \sum_{t=1}^{|y|} \log P(y_t \mid y_{<t}, x) \leq 0,\qquad"
        r" \mathrm{score}(y) = \frac{1}{|y|^\alpha} \log P(y \mid x)"
    )
    method = (
        "Build models that know how long a sentence should be, but not which of many words to take: each step "
        "has a small probability of ending too early. Find the output with the highest log-probability and "
        "the one with the highest normalised log-probability, and compare their lengths with the expected "
        "length under the model."
    )
    criterion = (
        "holds: without normalisation, outputs have on average less than 80 % of the expected length; with "
        "it, between 90 % and 110 %. Holds in part: too short without normalisation, but with it not within "
        "10 %. Otherwise it does not hold here."
    )
    explanation = (
        "Every word adds a negative number, so a long output pays for its uncertainty many times, and "
        "stopping early pays only once. From some length on, the empty output is the most probable one, "
        "although the model gives it a probability of only 1 %. This is an error of the objective and not of "
        "the search: a larger beam finds the short outputs more often. Dividing by the length compares "
        "log-probabilities per token."
    )
    variations = (
        Variation("alpha=0.5", "Half of the normalisation: which lengths are repaired?"),
        Variation(
            "early_end=0.0001", "A model that hardly ever ends too early: from which length on is it biased?"
        ),
        Variation("beam=1", "Greedy search without normalisation: why has it no bias?"),
    )
    exercise = Exercise(
        "At every step the best word has the probability 0.4, and ending too early 0.01. From which length L "
        "on is the empty output more probable than the best output of length L, if the end is then certain?",
        "0.4^L < 0.01 gives L > log 0.01 / log 0.4 = 5.03, so from 6 words on.",
    )
    seconds = 4
    settings = LengthSettings
    numbers = LengthNumbers
    full: ClassVar[dict[str, object]] = {"sentences": 200, "longest": 40, "beam": 200}

    def run(self, settings: LengthSettings) -> LengthNumbers:
        model, expected = _random_model(settings)
        plain, normalised = (
            [_output_length(model, number, settings.beam, ranking) for number in range(settings.sentences)]
            for ranking in (Ranking("none"), Ranking("length", settings.alpha))
        )
        return LengthNumbers(expected=expected, plain=plain, normalised=normalised)

    def judge(self, numbers: LengthNumbers) -> Judgement:
        expected = mean(numbers.expected)
        plain, normalised = mean(numbers.plain) / expected, mean(numbers.normalised) / expected
        empty = sum(length == 0 for length in numbers.plain) / len(numbers.plain)
        reason = (
            f"Outputs have {plain:.0%} of the expected length without normalisation ({empty:.0%} of them are "
            f"empty), and {normalised:.0%} with it."
        )
        if plain >= _SHORT:
            return Judgement(Verdict.NOT_HERE, reason)
        repaired = abs(normalised - 1) <= _REPAIRED
        return Judgement(Verdict.HOLDS if repaired else Verdict.IN_PART, reason)

    def table(self, numbers: LengthNumbers) -> NumberTable:
        order = sorted(range(len(numbers.expected)), key=lambda i: numbers.expected[i])
        quarters = [order[i * len(order) // 4 : (i + 1) * len(order) // 4] for i in range(4)]
        rows = [
            tuple(
                f"{mean(values[i] for i in quarter):.1f}"
                for values in (numbers.expected, numbers.plain, numbers.normalised)
            )
            for quarter in quarters
            if quarter
        ]
        return NumberTable(("expected length (quarters)", "log P", "normalised"), rows)

    def draw(self, numbers: LengthNumbers, figure: Figure, style: Style) -> None:
        panel = figure.subplots()
        longest = max(numbers.expected)
        panel.plot([0, longest], [0, longest], color="0.4", ls="--", label="expected length")
        panel.plot(numbers.expected, numbers.normalised, "o", color=BLUE, label="best by log P / length")
        panel.plot(numbers.expected, numbers.plain, "^", color=VERMILLION, label="best by log P")
        panel.set_xlabel("expected length in words")
        panel.set_ylabel("length of the output in words")
        panel.grid()
        panel.legend()


def _random_model(settings: LengthSettings) -> tuple[TableModel, list[float]]:
    """Return the model, and the expected length of every sentence."""
    random = torch.Generator().manual_seed(settings.seed)
    due = torch.linspace(1, settings.longest, settings.sentences).round()
    steps = torch.arange(settings.longest + _EXTRA_STEPS)
    end = torch.where(steps < due.unsqueeze(1), settings.early_end, settings.end).double()
    end[:, -1] = 1.0
    logits = torch.randn(*end.shape, settings.words, generator=random, dtype=torch.float64)
    words = (1 - end).unsqueeze(2) * (settings.sharpness * logits).softmax(dim=-1)
    table = torch.zeros(*end.shape, WORDS + settings.words, dtype=torch.float64)
    table[..., EOS], table[..., WORDS:] = end, words
    by_last = table.log().unsqueeze(2).expand(-1, -1, table.shape[-1], -1)  # the same after every word
    return TableModel(by_last), _expected_lengths(end)


def _expected_lengths(end: Tensor) -> list[float]:
    """Return the expected number of words, given the probability of the end at each step, (N, T)."""
    going_on = (1 - end).cumprod(dim=1)  # P(more than t words) for t = 0, 1, ...
    lengths: list[float] = going_on.sum(dim=1).tolist()
    return lengths


def _output_length(model: TableModel, number: int, beam: int, ranking: Ranking) -> int:
    longest = model.max_target_length(1)
    options = BeamOptions(beam=beam, ranking=ranking, stop="length")
    (found,) = beam_search(model, model.sentence(number), options, max_lengths=[longest or 0])
    return len(found[0].tokens)


LAB = LengthBias()
