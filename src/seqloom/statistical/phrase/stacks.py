"""Stack decoding of a phrase-based model (Koehn et al. 2003; Koehn 2010, ch. 6), by cube pruning.

A hypothesis has covered some source words and generated a prefix of the target. Hypotheses that cover equally
many words share a stack. Stack n is filled from the pruned stacks before it: the hypotheses of one coverage
times the translations of one span form a grid, sorted on both axes, and all grids together yield their most
promising combinations in order (Huang & Chiang 2007) until enough are popped. Two hypotheses with the same
future are recombined: the better one is kept, and remembers the other for the n-best list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from seqloom.statistical.phrase import features as F
from seqloom.statistical.phrase.extract import MONOTONE, OTHER, SWAP
from seqloom.statistical.phrase.features import Context, PhraseLanguageModel, Vector
from seqloom.statistical.phrase.graph import Arc, LanguageContext, PhraseHypothesis, SearchGraph, StackCount
from seqloom.statistical.phrase.options import Option, SourceSentence, SpanOptions, log_prob_of
from seqloom.types import EOS

_FREE = -1  # no later phrase can be adjacent to the start of the last one: the word before it is covered

CoverageState = tuple[int, int, int]  # mask of the covered words; start (or _FREE) and stop of the last phrase
BEGIN: CoverageState = (0, _FREE, 0)
Stack = dict[CoverageState, dict[object, PhraseHypothesis]]  # by coverage, then by recombination key


@dataclass(frozen=True)
class StackLimits:
    """Limits of the search; None means no limit."""

    stack: int | None = None  # hypotheses kept per stack
    pops: int | None = None  # hypotheses created per stack
    threshold: float | None = None  # maximum distance to the best score of the stack
    jump: int | None = None  # source words that may be jumped over


class _Group(NamedTuple):
    """The hypotheses of one coverage state."""

    coverage: CoverageState
    members: list[PhraseHypothesis]
    ranked: dict[
        int, tuple[list[float], list[PhraseHypothesis]]
    ]  # by orientation of the next phrase; filled on demand

    def by(self, orientation: int) -> tuple[list[float], list[PhraseHypothesis]]:
        """Return their scores with this orientation, and the hypotheses, best first."""
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
    future: float  # estimate for the words that are then still uncovered
    start: int
    stop: int
    coverage: CoverageState  # of the new hypotheses


def orientation(last_start: int, last_stop: int, start: int, stop: int) -> int:
    """Return the orientation of a source phrase relative to the previous one in target order."""
    return MONOTONE if start == last_stop else SWAP if stop == last_start else OTHER


def next_spans(
    coverage: CoverageState, sentence: SourceSentence, jump: int | None
) -> Iterator[tuple[int, int, int, SpanOptions]]:
    """Yield the spans that may be covered next: start, stop, mask of their words, options.

    Both the jump to the span and the jump back to the first uncovered word are limited.
    """
    covered, _, last_stop = coverage
    jump = sentence.length if jump is None else jump
    gap = (~covered & (covered + 1)).bit_length() - 1
    for start in range(max(gap, last_stop - jump), min(sentence.length, last_stop + jump + 1)):
        for stop, mask, choice in sentence.spans[start]:
            if covered & mask or (start != gap and stop - gap > jump):
                break  # longer spans overlap or exceed the limit, too
            yield start, stop, mask, choice


def coverage_after(covered: int, start: int, stop: int) -> CoverageState:
    """Return the coverage state after a phrase, given the mask of the words then covered.

    The start of the phrase matters only while a later phrase can be adjacent to it.
    """
    return covered, start if start and not covered >> (start - 1) & 1 else _FREE, stop


class StackDecoder:
    """Search for the best derivations of the translations of a sentence."""

    def __init__(self, language: PhraseLanguageModel, weights: Vector, limits: StackLimits) -> None:
        self.language, self.limits = language, limits
        self.language_weight = float(weights[F.LANGUAGE])
        self.distance_weight = float(weights[F.DISTANCE])

    def search(self, sentence: SourceSentence, *, keep: bool = False) -> SearchGraph:
        """Return the search graph; with `keep`, including the contents of each stack."""
        return _Search(self, sentence).run(keep=keep)


class _Search:
    """The search of one sentence."""

    def __init__(self, decoder: StackDecoder, sentence: SourceSentence) -> None:
        self.decoder, self.limits, self.sentence = decoder, decoder.limits, sentence
        self.length = sentence.length
        self.complete = (1 << sentence.length) - 1
        self.contexts: dict[Context, LanguageContext] = {}
        self.futures: dict[int, float] = {}
        self.grids: list[list[_Grid]] = [[] for _ in range(self.length + 1)]

    def run(self, *, keep: bool) -> SearchGraph:
        start = PhraseHypothesis(
            Arc(0.0, None, None, 0, 0), self._context(self.decoder.language.start), (0.0,) * 3, 0.0
        )
        groups, counts, kept = [_Group(BEGIN, [start], {})], [], []
        for size in range(1, self.length + 1):
            for group in groups:
                self._add_grids(group)
            grids, self.grids[size] = self.grids[size], []
            stack, count = self._fill(grids)
            groups = self._prune(stack, count)
            counts.append(count)
            if keep:
                kept.append([(group.coverage[0], one) for group in groups for one in group.members])
        for context in self.contexts.values():
            context.cache.clear()  # contexts refer to each other in cycles, which would keep them alive
        return SearchGraph(_goal(groups), counts, kept)

    def _add_grids(self, group: _Group) -> None:
        """Create the grids of a group with every span that it may cover next."""
        for start, stop, mask, choice in next_spans(group.coverage, self.sentence, self.limits.jump):
            grid = self._grid(group, choice, start, stop, group.coverage[0] | mask)
            self.grids[grid.coverage[0].bit_count()].append(grid)

    def _grid(self, group: _Group, choice: SpanOptions, start: int, stop: int, covered: int) -> _Grid:
        _, last_start, last_stop = group.coverage
        turn = orientation(last_start, last_stop, start, stop)
        scores, hypotheses = group.by(turn)
        estimates, options = choice.ranked[turn]
        base = -self.decoder.distance_weight * abs(start - last_stop)
        coverage, future = coverage_after(covered, start, stop), self._future(covered)
        return _Grid(scores, hypotheses, estimates, options, base, future, start, stop, coverage)

    def _fill(self, grids: list[_Grid]) -> tuple[Stack, StackCount]:
        """Return the hypotheses of a stack, before pruning."""
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
            count.recombined += self._add_hypothesis(stack, grid, row, column)
            # Every cell is reached once: down the first column, then along its row.
            scores, estimates, rest = grid.scores, grid.estimates, grid.base + grid.future
            if column == 0 and row + 1 < len(scores):
                heappush(heap, (-(scores[row + 1] + estimates[0] + rest), number, row + 1, 0))
            if column + 1 < len(estimates):
                heappush(heap, (-(scores[row] + estimates[column + 1] + rest), number, row, column + 1))
        return stack, count

    def _add_hypothesis(self, stack: Stack, grid: _Grid, row: int, column: int) -> bool:
        """Add the hypothesis of a cell; return whether it was recombined with one in the stack."""
        scores, hypotheses, estimates, options, base, future, start, stop, coverage = grid
        previous, option = hypotheses[row], options[column]
        before, after = previous.context, option.after
        language, context = before.cache.get(option.words) or self._extend(before, option.words)
        score = scores[row] + estimates[column] + base + language - option.language
        if coverage[0] == self.complete:
            score += self._end(context, after, stop)
        arc = Arc(score, previous, option, start, stop)
        group = stack.get(coverage)
        if group is None:
            group = stack[coverage] = {}
        key = (context.number, after)
        existing = group.get(key)
        if existing is not None:
            existing.recombine(arc, future)
            return True
        group[key] = PhraseHypothesis(arc, context, after, future)
        return False

    def _prune(self, stack: Stack, count: StackCount) -> list[_Group]:
        """Return the hypotheses that are kept, grouped by coverage."""
        members = [(coverage, one) for coverage, group in stack.items() for one in group.values()]
        members.sort(key=lambda member: -member[1].rank)
        kept = members[: self.limits.stack]
        if self.limits.threshold is not None:
            lowest = members[0][1].rank - self.limits.threshold
            kept = [member for member in kept if member[1].rank >= lowest]
        groups: dict[CoverageState, _Group] = {}
        for coverage, one in kept:
            groups.setdefault(coverage, _Group(coverage, [], {})).members.append(one)
        count.kept, count.pruned = len(kept), len(members) - len(kept)
        return list(groups.values())

    def _end(self, context: LanguageContext, after: tuple[float, ...], stop: int) -> float:
        """Return the score of EOS, which follows the last source word."""
        language, _ = context.cache.get((EOS,)) or self._extend(context, (EOS,))
        return language + after[MONOTONE if stop == self.length else OTHER]

    def _context(self, context: Context) -> LanguageContext:
        if context not in self.contexts:
            self.contexts[context] = LanguageContext(context, len(self.contexts))
        return self.contexts[context]

    def _extend(self, context: LanguageContext, words: tuple[int, ...]) -> tuple[float, LanguageContext]:
        """Return the weighted log P of words after a context, and the context after them."""
        log_prob, following = log_prob_of(self.decoder.language, context.context, words)
        result = context.cache[words] = (self.decoder.language_weight * log_prob, self._context(following))
        return result

    def _future(self, covered: int) -> float:
        """Return the estimate for all uncovered words, cached."""
        if covered not in self.futures:
            self.futures[covered] = self.sentence.estimate(covered)
        return self.futures[covered]


def _goal(groups: list[_Group]) -> PhraseHypothesis:
    """Return the hypothesis in which all complete ones are joined; the best path is its first arc."""
    ends = sorted((one for group in groups for one in group.members), key=lambda one: -one.score)
    goal = PhraseHypothesis(ends[0].arcs[0], ends[0].context, (0.0,) * 3, 0.0)
    goal.arcs = [arc for one in ends for arc in one.arcs]
    return goal
