"""The search graph of a stack decoder: hypotheses, and all paths found to each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from seqloom.statistical.phrase.features import Context
from seqloom.statistical.phrase.options import Option


class LanguageContext:
    """A language model context, and the cached scores of the phrases tried after it."""

    __slots__ = ("cache", "context", "number")

    def __init__(self, context: Context, number: int) -> None:
        self.context = context
        self.number = number
        self.cache: dict[tuple[int, ...], tuple[float, LanguageContext]] = {}


class Arc(NamedTuple):
    """One path to a hypothesis: from another hypothesis, by an option for a source span."""

    score: float  # of the entire path
    previous: PhraseHypothesis | None
    option: Option | None
    start: int
    stop: int


class PhraseHypothesis:
    """The part of a partial translation that its future depends on, and the paths that lead to it."""

    __slots__ = ("after", "arcs", "context", "rank", "score")

    def __init__(self, arc: Arc, context: LanguageContext, after: tuple[float, ...], future: float) -> None:
        self.score = arc.score  # of the best path, which is the first arc
        self.rank = arc.score + future  # with the estimated future score
        self.arcs = [arc]
        self.context = context
        self.after = after  # weighted log P of each possible orientation of the next phrase

    def recombine(self, arc: Arc, future: float) -> None:
        """Add another path to the same hypothesis; the best one determines the score."""
        self.arcs.append(arc)
        if arc.score > self.score:
            self.arcs[0], self.arcs[-1] = arc, self.arcs[0]
            self.score, self.rank = arc.score, arc.score + future


@dataclass
class StackCount:
    """Statistics of the hypotheses of one stack."""

    offered: int = 0  # combinations of a hypothesis and an option
    made: int = 0
    recombined: int = 0
    pruned: int = 0
    kept: int = 0


@dataclass
class SearchGraph:
    """Result of a search: the goal, which all complete hypotheses lead to, and statistics of the stacks."""

    goal: PhraseHypothesis
    stacks: list[StackCount]
    kept: list[list[tuple[int, PhraseHypothesis]]] = field(
        default_factory=list
    )  # per stack: coverage, hypothesis
