"""The search graph of a stack decoder: hypotheses, and every way that was found to each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from seqloom.statistical.phrase.features import Context
from seqloom.statistical.phrase.options import Option


class Said:
    """A language model context, and what it gives for the phrases that were tried behind it."""

    __slots__ = ("context", "known", "number")

    def __init__(self, context: Context, number: int) -> None:
        self.context = context
        self.number = number
        self.known: dict[tuple[int, ...], tuple[float, Said]] = {}


class Arc(NamedTuple):
    """One way to a hypothesis: from another one by an option for a span of the source."""

    score: float  # of the whole way
    previous: PhraseHypothesis | None
    option: Option | None
    start: int
    stop: int


class PhraseHypothesis:
    """What is covered and said so far, as far as the future depends on it, and the ways that lead here."""

    __slots__ = ("after", "arcs", "context", "rank", "score")

    def __init__(self, arc: Arc, context: Said, after: tuple[float, ...], future: float) -> None:
        self.score = arc.score  # of the best way, which is the first arc
        self.rank = arc.score + future  # with the estimate of what is to come
        self.arcs = [arc]
        self.context = context
        self.after = after  # weighted log P of each orientation that the next phrase may have

    def recombine(self, arc: Arc, future: float) -> None:
        """Remembers another way to the same place; the better one counts."""
        self.arcs.append(arc)
        if arc.score > self.score:
            self.arcs[0], self.arcs[-1] = arc, self.arcs[0]
            self.score, self.rank = arc.score, arc.score + future


@dataclass
class StackCount:
    """What happened to the hypotheses of one stack."""

    offered: int = 0  # combinations of a hypothesis and an option
    made: int = 0
    recombined: int = 0
    pruned: int = 0
    kept: int = 0


@dataclass
class SearchGraph:
    """The end of a search: the one hypothesis that all complete ones lead to; and the stacks on the way."""

    goal: PhraseHypothesis
    stacks: list[StackCount]
    kept: list[list[tuple[int, PhraseHypothesis]]] = field(
        default_factory=list
    )  # per stack: coverage, hypothesis
