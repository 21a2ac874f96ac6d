"""Outputs that contain given words: one beam for every number of required tokens generated so far.

Grid beam search (Hokamp & Liu 2017, arXiv:1704.07138). In an ordinary beam a hypothesis that has just generated
an unlikely but required word loses against those that have not. So hypotheses compete only with those that have
generated as many required tokens: each such bank keeps the best w.

A required word counts as a whole word only: "Thomas" is not in "Thomast". A hypothesis that continues a
required word leaves the bank of those that contain it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import attention_of, uncovered
from seqloom.text.word_edges import WordEdges
from seqloom.types import BOS, EOS, Batch, Head, StepModel, select_rows

Phrases = Sequence[tuple[int, ...]]


def count_required(tokens: Sequence[int], required: Phrases, edges: WordEdges) -> int:
    """Return how many of the required tokens a text contains.

    A phrase that it contains as whole words counts completely; of the others, the longest beginning that the
    text ends with.
    """
    text = tuple(tokens)
    missing = [phrase for phrase in required if not _contains(text, phrase, edges)]
    begun = (
        n
        for phrase in missing
        for n in range(1, min(len(phrase), len(text) + 1))
        if _stands(text, phrase[:n], len(text) - n, edges)
    )
    return sum(map(len, required)) - sum(map(len, missing)) + max(begun, default=0)


def _contains(text: tuple[int, ...], phrase: tuple[int, ...], edges: WordEdges) -> bool:
    """Return whether the text contains the phrase as whole words."""
    return any(_stands(text, phrase, start, edges) for start in range(len(text) - len(phrase) + 1))


def _stands(text: tuple[int, ...], phrase: tuple[int, ...], start: int, edges: WordEdges) -> bool:
    """Return whether the phrase stands there, with a word boundary or an end of the text on both sides."""
    end = start + len(phrase)
    if text[start:end] != phrase:
        return False
    places = [place for place in (start, end) if 0 < place < len(text)]
    return not any(edges.joined(text[place - 1], text[place]) for place in places)


class _OpenHypothesis(NamedTuple):
    """A hypothesis that can go on."""

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    attention: tuple[Tensor, ...] = ()  # (S) of every token, if it is wanted
    coverage: Tensor | None = None  # (S), the sum of the mean of all heads, if it is ranked by
    row: int = 0  # of the state that it goes on from

    @property
    def total(self) -> float:
        return sum(self.log_probs)


class _AttentionHistory(NamedTuple):
    """The attention of a step, (R, S) each, as far as it is needed."""

    alignment: Tensor | None
    coverage: Tensor | None

    def after(self, one: _OpenHypothesis, row: int) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """Return the attention and the coverage of a hypothesis that is continued from a row."""
        attention = () if self.alignment is None else (*one.attention, self.alignment[row])
        if self.coverage is None:
            return attention, None
        seen = self.coverage[row].double()
        return attention, seen if one.coverage is None else one.coverage + seen


@torch.inference_mode()
def required_search(
    model: StepModel,
    sentence: Batch,
    plan: BeamOptions,
    required: Phrases,
    edges: WordEdges,
    *,
    max_length: int,
    want_attention: bool = False,
    head: Head | None = None,
) -> list[DecodedSequence]:
    """The completed hypotheses of a batch of one sentence, best first, then those cut at the maximum length.

    At each length a bank ranks by log P all continuations that have said so many required tokens. Only who has
    said all may end; who ends among the best w of them is completed. The search is over when the completed ones
    satisfy the plan against all that is open. A hypothesis that is cut before it contains all is not returned.
    """
    memory, state = model.start(sentence)
    wanted = sum(map(len, required))
    begins = torch.tensor(edges.begins, device=sentence.source_lengths.device)
    source_length = int(sentence.source_lengths[0])
    opened, completed = [_OpenHypothesis()], list[DecodedSequence]()
    for length in range(1, max_length + 1):
        last = sentence.source_lengths.new_tensor([one.tokens[-1] if one.tokens else BOS for one in opened])
        step = model.step(memory, state, last)
        tokens = last.new_tensor([one.tokens for one in opened]).view(len(opened), length - 1)
        plan.rules.apply(step.log_probs, tokens, partial(torch.zeros_like, last))
        banks: dict[int, list[_OpenHypothesis]] = defaultdict(list)
        looked = _AttentionHistory(
            attention_of(step, head, "An alignment") if want_attention else None,
            attention_of(step, None, "search.coverage_penalty") if plan.ranking.needs_attention else None,
        )
        for one in _continuations(opened, step.log_probs, looked, plan.width, required, begins):
            ended = one.tokens[-1] == EOS
            if ended and count_required(one.tokens[:-1], required, edges) < wanted:
                continue
            banks[wanted if ended else count_required(one.tokens, required, edges)].append(one)
        opened = []
        for bank in banks.values():
            bank.sort(key=lambda one: one.total, reverse=True)
            completed += [_found(one, plan, source_length) for one in bank[: plan.width] if _ends(one)]
            opened += [one for one in bank if not _ends(one)][: plan.width]
        best = max((one.total for one in opened), default=-math.inf)
        if not opened or plan.satisfied(completed, best, length, max_length):
            break
        state = select_rows(step.state, last.new_tensor([one.row for one in opened]))
    cut = [one for one in opened if count_required(one.tokens, required, edges) == wanted]
    if len(completed) < plan.needed:
        completed += [_found(one, plan, source_length) for one in cut]
    return sorted(completed, key=lambda found: (found.finished, found.score), reverse=True)


def _continuations(
    opened: Sequence[_OpenHypothesis],
    log_probs: Tensor,
    looked: _AttentionHistory,
    width: int,
    required: Phrases,
    begins: Tensor,
) -> Iterable[_OpenHypothesis]:
    """Yield all continuations of every hypothesis that can be kept.

    Tokens outside of the required phrases that begin with a letter all lead to the same bank, and so do those
    that do not. So only the w most probable of each kind matter; they are among the w + |required| + 1 most
    probable of their kind, where the end is one.
    """
    special = sorted({token for phrase in required for token in phrase} | {EOS})
    most = min(width + len(special), log_probs.shape[1])
    kinds = [log_probs.masked_fill(kind, -math.inf).topk(most, dim=1).indices for kind in (begins, ~begins)]
    likely = torch.cat(kinds, dim=1).tolist()
    for row, (one, tokens) in enumerate(zip(opened, likely, strict=True)):
        chosen = sorted({*tokens, *special})
        attention, coverage = looked.after(one, row)
        for token, value in zip(chosen, log_probs[row, chosen].tolist(), strict=True):
            if value > -math.inf:
                yield _OpenHypothesis((*one.tokens, token), (*one.log_probs, value), attention, coverage, row)


def _ends(one: _OpenHypothesis) -> bool:
    return one.tokens[-1] == EOS


def _found(one: _OpenHypothesis, plan: BeamOptions, source_length: int) -> DecodedSequence:
    cost = 0.0 if one.coverage is None else uncovered(one.coverage, source_length)
    return DecodedSequence(
        tokens=list(one.tokens[:-1] if _ends(one) else one.tokens),
        log_probs=list(one.log_probs),
        score=plan.ranking.score(one.total, len(one.tokens), cost),
        finished=_ends(one),
        attention=torch.stack(one.attention) if one.attention else None,
    )
