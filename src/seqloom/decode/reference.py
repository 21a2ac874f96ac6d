"""What search means: one sentence and one hypothesis at a time, slow and easy to read.

`search.beam_search` returns what `reference_beam_search` returns, for every model and in every batch; a
property test holds it to that. `exhaustive_search` finds the best hypothesis there is, which tells how often a
beam misses it.
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
    """A StepModel that says only what is on the shortlist of a sentence, its probabilities renormalised."""

    model: StepModel
    allowed: Tensor  # (V,) True: on the list

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        return self.model.start(batch)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        step = self.model.step(memory, state, last)
        return step._replace(log_probs=step.log_probs.masked_fill(~self.allowed, -math.inf).log_softmax(-1))

    def max_target_length(self, source_length: int) -> int | None:
        return self.model.max_target_length(source_length)


class Partial(NamedTuple):
    """A target so far, with the model's state before its last token is fed."""

    tokens: tuple[int, ...]  # the end included, once it is said
    log_probs: tuple[float, ...]
    attention: tuple[Tensor, ...]  # (S) of every token, if the model tells where it looked
    state: Tree

    @property
    def ended(self) -> bool:
        return self.tokens[-1:] == (EOS,)

    @property
    def total(self) -> float:
        """log P of all tokens."""
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
    """One beam: what is open, and what is completed."""

    open: list[Partial]
    completed: list[Partial] = field(default_factory=list)


class Decision(NamedTuple):
    """What happened to one continuation, for those who look on."""

    length: int
    group: int
    partial: Partial
    rank: int  # among the continuations of its group, from 0
    fate: str  # completed, kept or pruned


Watch = Callable[[Decision], None]


@torch.inference_mode()
def reference_beam_search(
    model: StepModel, sentence: Batch, plan: BeamOptions, *, max_length: int, watch: Watch | None = None
) -> list[DecodedSequence]:
    """The completed hypotheses of a batch of one sentence, best first, then those that were cut.

    At each length a group ranks all continuations of its open hypotheses by log P, less the diversity penalty
    for every hypothesis that an earlier group goes on with by the same token. Those that end among the best w
    are completed; the best w that do not end stay open. A group is over when nothing of it is open, when it is
    satisfied (see Plan), or at the maximum length; the search is over when all groups are. Where too few are
    completed, the open ones are cut and come after them.
    """
    memory, state = model.start(sentence)
    source_length = int(sentence.source_lengths[0])
    groups = [Group([Partial((), (), (), state)]) for _ in range(plan.groups)]
    for length in range(1, max_length + 1):
        taken: Counter[int] = Counter()  # token → how many hypotheses of earlier groups go on with it
        for number, group in enumerate(groups):
            longer = [
                one
                for partial in group.open
                for one in continuations(model, sentence, memory, partial, plan.rules)
            ]
            longer.sort(key=lambda one: one.total - plan.diversity * taken[one.tokens[-1]], reverse=True)
            completed = [one for one in longer[: plan.width] if one.ended]
            group.completed += completed
            group.open = [one for one in longer if not one.ended][: plan.width]
            taken.update(one.tokens[-1] for one in group.open)
            if watch:
                _report(watch, length, number, longer, completed, group.open)
        for group in groups:
            done = [one.found(plan.ranking, source_length) for one in group.completed]
            best = max((one.total for one in group.open), default=-math.inf)
            if plan.satisfied(done, best, length, max_length):
                group.open = []
        if not any(group.open for group in groups):
            break
    found = []
    for group in groups:
        cut = group.open if len(group.completed) < plan.needed else []
        found += [one.found(plan.ranking, source_length) for one in (*group.completed, *cut)]
    return sorted(found, key=lambda one: (one.finished, one.score), reverse=True)


def _report(
    watch: Watch, length: int, group: int, ranked: list[Partial], completed: list[Partial], kept: list[Partial]
) -> None:
    for rank, one in enumerate(ranked):
        fate = "completed" if one in completed else "kept" if one in kept else "pruned"
        watch(Decision(length, group, one, rank, fate))


@torch.inference_mode()
def exhaustive_search(
    model: StepModel,
    sentence: Batch,
    *,
    max_length: int,
    ranking: Ranking | None = None,
    rules: Rules | None = None,
    limit: int = 100_000,
) -> DecodedSequence:
    """The best of all hypotheses of at most the maximum length; one that is cut only if none can end.

    Depth first and the likeliest token first, as Stahlberg & Byrne 2019 (arXiv:1908.10090): a hypothesis whose
    bound (see Ranking.bound) is no better than the best score that is known need not be continued. After
    `limit` hypotheses that had to be continued the search gives up.
    """
    ranking, rules = ranking or Ranking(), rules or Rules()
    memory, state = model.start(sentence)
    source_length = int(sentence.source_lengths[0])
    waiting = [Partial((), (), (), state)]
    best: DecodedSequence | None = None
    cut: DecodedSequence | None = None
    steps = 0
    while waiting:
        partial = waiting.pop()
        length = len(partial.tokens)
        if best is not None and ranking.bound(partial.total, length, max_length) <= best.score:
            continue
        if length == max_length:
            cut = _better(cut, partial.found(ranking, source_length))
            continue
        if steps == limit:
            raise SeqloomError(
                f"The exact search gave up: {limit} hypotheses did not prove which one is best.",
                "use a smaller maximum length, a higher limit, or a beam",
            )
        steps += 1
        for one in sorted(continuations(model, sentence, memory, partial, rules), key=lambda one: one.total):
            if one.ended:
                best = _better(best, one.found(ranking, source_length))
            else:
                waiting.append(one)
    answer = best or cut
    if answer is None:
        raise SeqloomError(
            "No output satisfies the model and the rules.", "relax what is forced, forbidden or allowed"
        )
    return answer


def _better(known: DecodedSequence | None, new: DecodedSequence) -> DecodedSequence:
    return new if known is None or new.score > known.score else known


def continuations(
    model: StepModel, sentence: Batch, memory: Tree, partial: Partial, rules: Rules
) -> Iterator[Partial]:
    """The hypothesis with each token that can follow; padding and the start are never part of an answer."""
    last = partial.tokens[-1] if partial.tokens else BOS
    step = model.step(memory, partial.state, sentence.source.new_tensor([last]))
    looked = step.alignment()
    seen = () if looked is None else (looked[0],)
    for token, log_prob in enumerate(step.log_probs[0].tolist()):
        if log_prob > -math.inf and may_follow(token, partial.tokens, rules):
            yield Partial(
                (*partial.tokens, token),
                (*partial.log_probs, log_prob),
                (*partial.attention, *seen),
                step.state,
            )


def may_follow(token: int, said: tuple[int, ...], rules: Rules) -> bool:
    """Whether the rules of the only sentence allow this token after those."""
    if rules.prefixes and len(said) < len(rules.prefixes[0]):
        return token == rules.prefixes[0][len(said)]
    said = (*rules.context, *said)
    if token in (PAD, BOS) or (token == EOS and len(said) < rules.min_length):
        return False
    if rules.allowed is not None and not rules.allowed[token]:
        return False
    text = (*said, token)
    if any(
        text[len(text) - len(words) :] == tuple(words) for words in rules.forbidden if len(words) <= len(text)
    ):
        return False
    n = rules.no_repeat
    return not n or text[-n:] not in [text[i : i + n] for i in range(len(text) - n)]
