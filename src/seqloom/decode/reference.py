"""Reference search: one sentence and one hypothesis at a time, slow and easy to read.

`beam_search.beam_search` returns what `reference_beam_search` returns, for every model and in every batch; a
property test checks this. `exhaustive_search` finds the best of all hypotheses, which shows how often beam
search misses it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import Ranking, no_attention, uncovered
from seqloom.decode.rules import Rules
from seqloom.errors import SeqloomError
from seqloom.types import BOS, EOS, PAD, Batch, Step, StepModel, Tree


@dataclass(frozen=True)
class RestrictedVocabulary(StepModel):
    """StepModel over the shortlist of one sentence, with renormalised probabilities."""

    model: StepModel
    allowed: Tensor  # (V,) True: on the shortlist

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        return self.model.start(batch)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        step = self.model.step(memory, state, last)
        return step._replace(log_probs=step.log_probs.masked_fill(~self.allowed, -math.inf).log_softmax(-1))

    def max_target_length(self, source_length: int) -> int | None:
        return self.model.max_target_length(source_length)


class PartialTarget(NamedTuple):
    """Partial target, with the model's state before it reads the last token."""

    tokens: tuple[int, ...]  # including the end of sentence, once it is generated
    log_probs: tuple[float, ...]
    attention: tuple[Tensor, ...]  # (S) for each token, if the model has attention
    state: Tree

    @property
    def ended(self) -> bool:
        return self.tokens[-1:] == (EOS,)

    @property
    def total(self) -> float:
        """Sum of log P over all tokens."""
        return sum(self.log_probs)

    def score(self, ranking: Ranking, source_length: int) -> float:
        if not ranking.needs_attention:
            return ranking.score(self.total, len(self.tokens))
        if not self.attention:
            raise no_attention("search.coverage_penalty")
        cost = uncovered(torch.stack(self.attention).double().sum(dim=0), source_length)
        return ranking.score(self.total, len(self.tokens), cost)

    def found(self, ranking: Ranking, source_length: int) -> DecodedSequence:
        tokens = list(self.tokens[:-1] if self.ended else self.tokens)
        score = self.score(ranking, source_length)
        return DecodedSequence(tokens, list(self.log_probs), score, self.ended, attention=None)


@dataclass
class Group:
    """Open and completed hypotheses of one group of the beam."""

    open: list[PartialTarget]
    completed: list[PartialTarget] = field(default_factory=list)


class Decision(NamedTuple):
    """Decision of the search on one continuation, reported to `watch`."""

    length: int
    group: int
    partial: PartialTarget
    rank: int  # among the continuations of its group, from 0
    fate: str  # completed, kept or pruned


Watch = Callable[[Decision], None]


@torch.inference_mode()
def reference_beam_search(
    model: StepModel, sentence: Batch, options: BeamOptions, *, max_length: int, watch: Watch | None = None
) -> list[DecodedSequence]:
    """Return the completed hypotheses of one sentence, best first, then those cut at the maximum length.

    At each length, a group ranks all continuations of its open hypotheses by log P, minus the diversity penalty
    for each hypothesis that an earlier group continues with the same token. Those that end among the best w are
    completed; the best w that do not end stay open. A group stops when it has no open hypothesis, when it is
    satisfied (see BeamOptions), or at the maximum length; the search stops when all groups have. If too few
    hypotheses are completed, the open ones are cut and returned after them.
    """
    memory, state = model.start(sentence)
    source_length = int(sentence.source_lengths[0])
    groups = [Group([PartialTarget((), (), (), state)]) for _ in range(options.groups)]
    for length in range(1, max_length + 1):
        taken: Counter[int] = Counter()  # token → number of hypotheses of earlier groups that continue with it
        for number, group in enumerate(groups):
            extended = [
                one
                for partial in group.open
                for one in continuations(model, sentence, memory, partial, options.rules)
            ]
            extended.sort(key=lambda one: one.total - options.diversity * taken[one.tokens[-1]], reverse=True)
            completed = [one for one in extended[: options.width] if one.ended]
            group.completed += completed
            group.open = [one for one in extended if not one.ended][: options.width]
            taken.update(one.tokens[-1] for one in group.open)
            if watch:
                _report(watch, length, number, extended, completed, group.open)
        for group in groups:
            done = [one.found(options.ranking, source_length) for one in group.completed]
            best = max((one.total for one in group.open), default=-math.inf)
            if options.satisfied(done, best, length, max_length):
                group.open = []
        if not any(group.open for group in groups):
            break
    found = []
    for group in groups:
        cut = group.open if len(group.completed) < options.needed else []
        found += [one.found(options.ranking, source_length) for one in (*group.completed, *cut)]
    return sorted(found, key=lambda one: (one.finished, one.score), reverse=True)


def _report(
    watch: Watch,
    length: int,
    group: int,
    ranked: list[PartialTarget],
    completed: list[PartialTarget],
    kept: list[PartialTarget],
) -> None:
    for rank, one in enumerate(ranked):
        fate = "completed" if one in completed else "kept" if one in kept else "pruned"
        watch(Decision(length, group, one, rank, fate))


class Optimum(NamedTuple):
    """Result of an exact search."""

    best: DecodedSequence | None  # None: there is none, or none that is better than the known output
    proved: bool  # whether no output is better
    expanded: int  # hypotheses that were continued


def exhaustive_search(
    model: StepModel,
    sentence: Batch,
    *,
    max_length: int,
    ranking: Ranking | None = None,
    rules: Rules | None = None,
    limit: int = 100_000,
) -> DecodedSequence:
    """Return the best of all hypotheses; fail if the proof needs more than `limit` continued hypotheses."""
    found = branch_and_bound(
        model,
        sentence,
        max_length=max_length,
        ranking=ranking or Ranking(),
        rules=rules or Rules(),
        limit=limit,
    )
    if not found.proved:
        raise SeqloomError(
            f"The exact search found no proof of the best hypothesis after {limit} hypotheses.",
            "use a smaller maximum length, a higher limit or beam search",
        )
    if found.best is None:
        raise SeqloomError(
            "No output satisfies the model and the rules.",
            "relax the prefix, the forbidden words or the other rules",
        )
    return found.best


@torch.inference_mode()
def branch_and_bound(
    model: StepModel,
    sentence: Batch,
    *,
    max_length: int,
    ranking: Ranking,
    rules: Rules,
    limit: int,
    above: float = -math.inf,
) -> Optimum:
    """Search for the best of all hypotheses up to the maximum length; one that is cut only if none can end.

    Depth-first search, most probable token first (Stahlberg & Byrne 2019, arXiv:1908.10090): a hypothesis is
    not continued if its bound (see Ranking.bound) does not exceed the best score so far, which starts at
    `above`. The search ends without a proof after continuing `limit` hypotheses.
    """
    memory, state = model.start(sentence)
    source_length = int(sentence.source_lengths[0])
    waiting = [PartialTarget((), (), (), state)]
    best: DecodedSequence | None = None
    cut: DecodedSequence | None = None
    steps = 0
    while waiting:
        partial = waiting.pop()
        length = len(partial.tokens)
        if above > -math.inf and ranking.bound(partial.total, length, max_length) <= above:
            continue
        if length == max_length:
            cut = _better(cut, partial.found(ranking, source_length))
            continue
        if steps == limit:
            return Optimum(best if above > -math.inf else cut, proved=False, expanded=steps)
        steps += 1
        for one in sorted(continuations(model, sentence, memory, partial, rules), key=lambda one: one.total):
            if not one.ended:
                waiting.append(one)
            elif one.score(ranking, source_length) > above:
                best = one.found(ranking, source_length)
                above = best.score
    return Optimum(best if above > -math.inf else cut, proved=True, expanded=steps)


def _better(known: DecodedSequence | None, new: DecodedSequence) -> DecodedSequence:
    return new if known is None or new.score > known.score else known


def continuations(
    model: StepModel, sentence: Batch, memory: Tree, partial: PartialTarget, rules: Rules
) -> Iterator[PartialTarget]:
    """Yield the hypothesis extended by each possible token, which excludes padding and the start."""
    last = partial.tokens[-1] if partial.tokens else BOS
    step = model.step(memory, partial.state, sentence.source.new_tensor([last]))
    alignment = step.alignment()
    attention = () if alignment is None else (alignment[0],)
    for token, log_prob in enumerate(step.log_probs[0].tolist()):
        if log_prob > -math.inf and may_follow(token, partial.tokens, rules):
            yield PartialTarget(
                (*partial.tokens, token),
                (*partial.log_probs, log_prob),
                (*partial.attention, *attention),
                step.state,
            )


def may_follow(token: int, tokens: tuple[int, ...], rules: Rules) -> bool:
    """Return whether the rules of a single sentence allow this token after these."""
    if rules.prefixes and len(tokens) < len(rules.prefixes[0]):
        return token == rules.prefixes[0][len(tokens)]
    tokens = (*rules.context, *tokens)
    if token in (PAD, BOS) or (token == EOS and len(tokens) < rules.min_length):
        return False
    if rules.allowed is not None and not rules.allowed[token]:
        return False
    text = (*tokens, token)
    if any(
        text[len(text) - len(words) :] == tuple(words) for words in rules.forbidden if len(words) <= len(text)
    ):
        return False
    n = rules.no_repeat
    return not n or text[-n:] not in [text[i : i + n] for i in range(len(text) - n)]
