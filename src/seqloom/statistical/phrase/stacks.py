"""Stack decoding of a phrase-based model (Koehn et al. 2003; Koehn 2010, ch. 6), by cube pruning.

A hypothesis has covered some words of the source and said some of the target. Hypotheses that cover equally
many words share a stack. Stack n is filled from the pruned stacks before it: the hypotheses of one coverage
times the translations of one span are a grid, sorted on both sides, and all grids together hand over their most
promising combinations in order (Huang & Chiang 2007) until enough are popped. Two hypotheses that nothing in
the future can tell apart are recombined: the better one stays, and remembers the other for the n-best list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from seqloom.statistical.phrase import features as F
from seqloom.statistical.phrase.extract import MONOTONE, OTHER, SWAP
from seqloom.statistical.phrase.features import Context, PhraseLanguageModel, Vector
from seqloom.statistical.phrase.graph import Arc, PhraseHypothesis, Said, SearchGraph, StackCount
from seqloom.statistical.phrase.options import Option, SourceSentence, SpanOptions, log_prob_of
from seqloom.types import EOS

_FREE = -1  # no phrase can stand directly before the last one: its words are covered

Place = tuple[int, int, int]  # a mask of the covered words; start, or _FREE, and stop of the last phrase
BEGIN: Place = (0, _FREE, 0)
Stack = dict[Place, dict[object, PhraseHypothesis]]  # what can be told apart at each place


@dataclass(frozen=True)
class Limits:
    """How much of the space is searched; None is no limit."""

    stack: int | None = None  # hypotheses that a stack keeps
    pops: int | None = None  # hypotheses that are made for a stack
    threshold: float | None = None  # a hypothesis that is so much worse than the best of its stack goes
    jump: int | None = None  # source words that may be jumped over


class _Group(NamedTuple):
    """The hypotheses of one place."""

    place: Place
    members: list[PhraseHypothesis]
    ranked: dict[
        int, tuple[list[float], list[PhraseHypothesis]]
    ]  # by orientation of what comes next; on demand

    def by(self, orientation: int) -> tuple[list[float], list[PhraseHypothesis]]:
        """Their scores with that orientation, and they themselves, best first."""
        if orientation not in self.ranked:
            scored = [(one.score + one.after[orientation], one) for one in self.members]
            scored.sort(key=lambda pair: -pair[0])
            self.ranked[orientation] = ([score for score, _ in scored], [one for _, one in scored])
        return self.ranked[orientation]


class _Grid(NamedTuple):
    """The hypotheses of a group times the options of a span."""

    scores: list[float]
    hypotheses: list[PhraseHypothesis]
    estimates: list[float]
    options: list[Option]
    base: float  # distance
    future: float  # of what is then still uncovered
    start: int
    stop: int
    place: Place  # of the new hypotheses


def orientation(last_start: int, last_stop: int, start: int, stop: int) -> int:
    """How a phrase of the source stands to the one before it in the target."""
    return MONOTONE if start == last_stop else SWAP if stop == last_start else OTHER


def next_spans(
    place: Place, sentence: SourceSentence, jump: int | None
) -> Iterator[tuple[int, int, int, SpanOptions]]:
    """The spans that may be covered next: start, stop, a mask of their words, what they can become.

    Neither the jump to it nor the way back from it to the first uncovered word may be too far.
    """
    covered, _, last_stop = place
    jump = sentence.length if jump is None else jump
    gap = (~covered & (covered + 1)).bit_length() - 1
    for start in range(max(gap, last_stop - jump), min(sentence.length, last_stop + jump + 1)):
        for stop, mask, choice in sentence.spans[start]:
            if covered & mask or (start != gap and stop - gap > jump):
                break  # and so do longer spans from here
            yield start, stop, mask, choice


def place_after(covered: int, start: int, stop: int) -> Place:
    """The place behind a phrase, by which so many words are covered.

    Where the phrase began matters only while a later one can stand directly before it.
    """
    return covered, start if start and not covered >> (start - 1) & 1 else _FREE, stop


class StackDecoder:
    """Finds the best derivations of a sentence's translations."""

    def __init__(self, language: PhraseLanguageModel, weights: Vector, limits: Limits) -> None:
        self.language, self.limits = language, limits
        self.language_weight = float(weights[F.LANGUAGE])
        self.distance_weight = float(weights[F.DISTANCE])

    def search(self, sentence: SourceSentence, *, keep: bool = False) -> SearchGraph:
        """The graph of all that was found; with `keep` also what each stack held."""
        return _Search(self, sentence).run(keep=keep)


class _Search:
    """One sentence on its way through the stacks."""

    def __init__(self, decoder: StackDecoder, sentence: SourceSentence) -> None:
        self.decoder, self.limits, self.sentence = decoder, decoder.limits, sentence
        self.length = sentence.length
        self.complete = (1 << sentence.length) - 1
        self.said: dict[Context, Said] = {}
        self.futures: dict[int, float] = {}
        self.grids: list[list[_Grid]] = [[] for _ in range(self.length + 1)]

    def run(self, *, keep: bool) -> SearchGraph:
        nothing = PhraseHypothesis(
            Arc(0.0, None, None, 0, 0), self._said(self.decoder.language.start), (0.0,) * 3, 0.0
        )
        groups, counts, kept = [_Group(BEGIN, [nothing], {})], [], []
        for size in range(1, self.length + 1):
            for group in groups:
                self._offer(group)
            grids, self.grids[size] = self.grids[size], []
            stack, count = self._fill(grids)
            groups = self._prune(stack, count)
            counts.append(count)
            if keep:
                kept.append([(group.place[0], one) for group in groups for one in group.members])
        for said in self.said.values():
            said.known.clear()  # contexts lead to each other in circles, which would keep them alive
        return SearchGraph(_goal(groups), counts, kept)

    def _offer(self, group: _Group) -> None:
        """Makes the grids of a group with every span that it may cover next."""
        for start, stop, mask, choice in next_spans(group.place, self.sentence, self.limits.jump):
            grid = self._grid(group, choice, start, stop, group.place[0] | mask)
            self.grids[grid.place[0].bit_count()].append(grid)

    def _grid(self, group: _Group, choice: SpanOptions, start: int, stop: int, covered: int) -> _Grid:
        _, last_start, last_stop = group.place
        turn = orientation(last_start, last_stop, start, stop)
        scores, hypotheses = group.by(turn)
        estimates, options = choice.ranked[turn]
        base = -self.decoder.distance_weight * abs(start - last_stop)
        place, future = place_after(covered, start, stop), self._future(covered)
        return _Grid(scores, hypotheses, estimates, options, base, future, start, stop, place)

    def _fill(self, grids: list[_Grid]) -> tuple[Stack, StackCount]:
        """The hypotheses of a stack, before pruning."""
        stack: Stack = {}
        count = StackCount(offered=sum(len(grid.scores) * len(grid.options) for grid in grids))
        heap = [
            (-(grid.scores[0] + grid.estimates[0] + grid.base + grid.future), number, 0, 0)
            for number, grid in enumerate(grids)
        ]
        heapify(heap)
        pops = count.offered if self.limits.pops is None else self.limits.pops
        while heap and count.made < pops:
            _, number, row, column = heappop(heap)
            grid = grids[number]
            count.made += 1
            count.recombined += self._enter(stack, grid, row, column)
            # Every cell is reached once: down its first column, then along its row.
            scores, estimates, rest = grid.scores, grid.estimates, grid.base + grid.future
            if column == 0 and row + 1 < len(scores):
                heappush(heap, (-(scores[row + 1] + estimates[0] + rest), number, row + 1, 0))
            if column + 1 < len(estimates):
                heappush(heap, (-(scores[row] + estimates[column + 1] + rest), number, row, column + 1))
        return stack, count

    def _enter(self, stack: Stack, grid: _Grid, row: int, column: int) -> bool:
        """Whether the new hypothesis of a cell was recombined with one that the stack had."""
        scores, hypotheses, estimates, options, base, future, start, stop, place = grid
        previous, option = hypotheses[row], options[column]
        before, after = previous.context, option.after
        language, said = before.known.get(option.words) or self._say(before, option.words)
        score = scores[row] + estimates[column] + base + language - option.language
        if place[0] == self.complete:
            score += self._end(said, after, stop)
        arc = Arc(score, previous, option, start, stop)
        group = stack.get(place)
        if group is None:
            group = stack[place] = {}
        key = (said.number, after)
        found = group.get(key)
        if found is not None:
            found.recombine(arc, future)
            return True
        group[key] = PhraseHypothesis(arc, said, after, future)
        return False

    def _prune(self, stack: Stack, count: StackCount) -> list[_Group]:
        """What stays of a stack, by place."""
        members = [(place, one) for place, group in stack.items() for one in group.values()]
        members.sort(key=lambda member: -member[1].rank)
        kept = members[: self.limits.stack]
        if self.limits.threshold is not None:
            lowest = members[0][1].rank - self.limits.threshold
            kept = [member for member in kept if member[1].rank >= lowest]
        groups: dict[Place, _Group] = {}
        for place, one in kept:
            groups.setdefault(place, _Group(place, [], {})).members.append(one)
        count.kept, count.pruned = len(kept), len(members) - len(kept)
        return list(groups.values())

    def _end(self, said: Said, after: tuple[float, ...], stop: int) -> float:
        """What the end of the sentence adds; it stands behind the last word of the source."""
        language, _ = said.known.get((EOS,)) or self._say(said, (EOS,))
        return language + after[MONOTONE if stop == self.length else OTHER]

    def _said(self, context: Context) -> Said:
        if context not in self.said:
            self.said[context] = Said(context, len(self.said))
        return self.said[context]

    def _say(self, said: Said, words: tuple[int, ...]) -> tuple[float, Said]:
        """The weighted log P of words behind a context, and the context behind them."""
        log_prob, context = log_prob_of(self.decoder.language, said.context, words)
        known = said.known[words] = (self.decoder.language_weight * log_prob, self._said(context))
        return known

    def _future(self, covered: int) -> float:
        """The estimate for all uncovered words: the sum over the gaps."""
        if covered not in self.futures:
            self.futures[covered] = self.sentence.estimate(covered)
        return self.futures[covered]


def _goal(groups: list[_Group]) -> PhraseHypothesis:
    """Where all complete hypotheses meet; the best way is the first arc."""
    ends = sorted((one for group in groups for one in group.members), key=lambda one: -one.score)
    goal = PhraseHypothesis(ends[0].arcs[0], ends[0].context, (0.0,) * 3, 0.0)
    goal.arcs = [arc for one in ends for arc in one.arcs]
    return goal
