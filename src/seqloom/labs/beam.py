"""Greedy search cannot undo a decision, exhaustive search is exponential, and beam search is in between."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import torch
from pydantic import Field

from seqloom.decode.beam_search import beam_search
from seqloom.decode.options import BeamOptions
from seqloom.decode.ranking import Ranking
from seqloom.errors import SeqloomError
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

_EQUAL = 1e-6  # difference of two log probabilities
_MOST_PREFIXES = 20_000
_PROBABILITY = Ranking("none")


class BeamSettings(Settings):
    beams: tuple[int, ...] = Field(
        (1, 2, 5), min_length=1, description="beam sizes, without the exhaustive one"
    )
    words: int = Field(4, ge=2, description="words V of the vocabulary")
    length: int = Field(6, ge=2, description="maximum length T, including the end of sentence")
    sentences: int = Field(100, ge=1, description="random sentences")
    sharpness: float = Field(1.5, gt=0, description="standard deviation of the random logits")
    seed: int = Field(1, description="seed of the distributions")


class SearchNumbers(Numbers):
    beam: int
    expansions: float  # hypotheses continued per sentence
    errors: float  # share of sentences whose best output was missed
    loss: float  # mean log P by which the output is below the best one


class BeamNumbers(Numbers):
    searches: list[SearchNumbers]  # by beam size; the last one is exhaustive
    length: int  # T
    prefixes: int  # hypotheses that exhaustive search has to continue: 1 + V + ... + V^(T-1)


class Beam(Lab[BeamSettings, BeamNumbers]):
    name = "beam"
    claim = "Greedy search cannot undo decisions, exhaustive search costs Vᵀ, and beam search is in between"
    note = Note(LECTURE_7, "Beam search decoding")
    equation = (
        r"\hat{y} = \mathrm{argmax}_y \sum_t \log P(y_t \mid y_{<t}, x):\qquad"
        r" \mathrm{greedy}\ O(T),\quad \mathrm{beam}\ O(kT),\quad \mathrm{exhaustive}\ O(V^T)"
    )
    method = (
        "Draw random models in which the next word depends on the last one, small enough to search all "
        "outputs. Decode with growing beams. Count how many hypotheses are continued, and how often the most "
        "probable output is missed. A beam of V^(T−1) keeps every hypothesis."
    )
    criterion = (
        "holds: greedy search misses the best output of some sentences, errors fall with every larger beam "
        "until there are none, the exhaustive beam continues all 1 + V + ... + V^(T−1) prefixes, and a beam "
        "of k at most kT. Holds in part: errors do not fall with every step. Otherwise it does not hold here."
    )
    explanation = (
        "Greedy search takes the best word and keeps it, even if all continuations are improbable. A beam of "
        "k keeps k hypotheses and changes its mind among them; its cost grows with k, not with the number of "
        "outputs. Exhaustive search is possible here only because V and T are small: 100 words and 20 steps "
        "have 10⁴⁰ outputs."
    )
    variations = (
        Variation("sharpness=4", "A confident model: how often does greedy search miss the best output?"),
        Variation("words=3 length=9", "Longer outputs: are small beams still good?"),
        Variation("beams=[1,2,3,4,6,8,12,16]", "Where is a good trade of cost against errors?"),
    )
    exercise = Exercise(
        "How many hypotheses does exhaustive search continue with V = 4 words and T = 6, if every hypothesis "
        "may end at each step?",
        "Open hypotheses before step t are all words of length t − 1: 4⁰ + 4¹ + ... + 4⁵ = (4⁶ − 1) / 3 = "
        "1,365.",
    )
    seconds = 4
    settings = BeamSettings
    numbers = BeamNumbers
    full: ClassVar[dict[str, object]] = {"sentences": 1000, "beams": (1, 2, 3, 5, 10, 20, 50)}

    def run(self, settings: BeamSettings) -> BeamNumbers:
        prefixes = sum(settings.words**t for t in range(settings.length))
        if prefixes > _MOST_PREFIXES:
            raise SeqloomError(
                f"beam.words={settings.words} and beam.length={settings.length} have {prefixes:,} hypotheses; "
                f"the exhaustive search is limited to {_MOST_PREFIXES:,}.",
                "choose fewer words or a smaller length",
            )
        model = _random_model(settings)
        exhaustive = settings.words ** (settings.length - 1)
        beams = [*sorted({beam for beam in settings.beams if beam < exhaustive}), exhaustive]
        found = [_search(model, settings, beam) for beam in beams]
        best, searches = found[-1][0], []
        for beam, (scores, expansions) in zip(beams, found, strict=True):
            gaps = [known - score for known, score in zip(best, scores, strict=True)]
            searches.append(
                SearchNumbers(
                    beam=beam,
                    expansions=expansions / settings.sentences,
                    errors=sum(gap > _EQUAL for gap in gaps) / settings.sentences,
                    loss=sum(gaps) / settings.sentences,
                )
            )
        return BeamNumbers(searches=searches, length=settings.length, prefixes=prefixes)

    def judge(self, numbers: BeamNumbers) -> Judgement:
        *limited, exhaustive = numbers.searches
        first = limited[0]
        reason = (
            f"A beam of {first.beam} misses the best output of {first.errors:.0%} of the sentences, a beam of "
            f"{limited[-1].beam} of {limited[-1].errors:.0%}; they continue {first.expansions:.1f} and "
            f"{limited[-1].expansions:.1f} hypotheses, exhaustive search {exhaustive.expansions:,.0f}."
        )
        errors = [one.errors for one in numbers.searches]
        linear = all(one.expansions <= one.beam * numbers.length for one in limited)
        if errors[0] == 0 or exhaustive.expansions != numbers.prefixes or not linear:
            return Judgement(Verdict.NOT_HERE, reason)
        falls = all(later < earlier or later == 0 for earlier, later in pairwise(errors))
        return Judgement(Verdict.HOLDS if falls else Verdict.IN_PART, reason)

    def table(self, numbers: BeamNumbers) -> NumberTable:
        rows = [
            (
                f"{one.beam:,}{' (all)' if one is numbers.searches[-1] else ''}",
                f"{one.expansions:,.1f}",
                f"{one.errors:.1%}",
                f"{one.loss:.3f}",
            )
            for one in numbers.searches
        ]
        return NumberTable(("beam", "hypotheses continued", "best output missed", "log P below the best"), rows)

    def draw(self, numbers: BeamNumbers, figure: Figure, style: Style) -> None:
        left, right = figure.subplots(1, 2)
        names = [f"{one.beam:,}" for one in numbers.searches]
        names[-1] = "all"
        errors = left.bar(names, [100 * one.errors for one in numbers.searches], color=VERMILLION)
        left.bar_label(errors, [f"{100 * one.errors:.0f}" for one in numbers.searches], padding=2)
        left.set_ylabel("best output missed, % of sentences")
        costs = right.bar(names, [one.expansions for one in numbers.searches], color=BLUE)
        right.bar_label(costs, [f"{one.expansions:,.0f}" for one in numbers.searches], padding=2)
        right.set_ylabel("hypotheses continued per sentence")
        right.set_yscale("log")
        for panel in (left, right):
            panel.set_xlabel("beam size")
            panel.margins(y=0.12)


def _random_model(settings: BeamSettings) -> TableModel:
    random = torch.Generator().manual_seed(settings.seed)
    size = WORDS + settings.words
    shape = (settings.sentences, settings.length, size, size)
    logits = settings.sharpness * torch.randn(shape, generator=random, dtype=torch.float64)
    possible = torch.ones(size, dtype=torch.bool)
    possible[:WORDS] = False
    possible[EOS] = True
    logits = logits.masked_fill(~possible, -math.inf)
    only_end = torch.full((size,), -math.inf, dtype=torch.float64)
    only_end[EOS] = 0.0
    logits[:, -1] = only_end  # every output ends at the maximum length
    return TableModel(logits.log_softmax(dim=-1))


def _search(model: TableModel, settings: BeamSettings, beam: int) -> tuple[list[float], int]:
    """Return log P of the output of every sentence, and the number of hypotheses continued."""
    options = BeamOptions(beam=beam, ranking=_PROBABILITY, stop="length")
    model.continued, scores = 0, []
    for number in range(settings.sentences):
        (found,) = beam_search(model, model.sentence(number), options, max_lengths=[settings.length])
        scores.append(found[0].score)
    return scores, model.continued


LAB = Beam()
