"""Outputs that contain given words: one beam for every number of required tokens generated so far.

Grid beam search (Hokamp & Liu 2017, arXiv:1704.07138). In an ordinary beam a hypothesis that has just generated
an unlikely but required word loses against those that have not. So a hypothesis competes only with those that
have generated the same number of required tokens: each such bank keeps the best w.

A required word counts only as a complete word: "Thomas" is not in "Thomast". A hypothesis that continues a
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

    A phrase that it contains as complete words counts in full; of the other phrases, only the longest beginning
    with which the text ends counts.
    """
    text = tuple(tokens)
    missing = [phrase for phrase in required if not _contains(text, phrase, edges)]
    begun = (
        n
        for phrase in missing
        for n in range(1, min(len(phrase), len(text) + 1))
        if _occurs_at(text, phrase[:n], len(text) - n, edges)
    )
    return sum(map(len, required)) - sum(map(len, missing)) + max(begun, default=0)


def _contains(text: tuple[int, ...], phrase: tuple[int, ...], edges: WordEdges) -> bool:
    """Return whether the text contains the phrase as complete words."""
    return any(_occurs_at(text, phrase, start, edges) for start in range(len(text) - len(phrase) + 1))


def _occurs_at(text: tuple[int, ...], phrase: tuple[int, ...], start: int, edges: WordEdges) -> bool:
    """Return whether the phrase begins at `start`, with a word boundary or a text boundary on both sides."""
    end = start + len(phrase)
    if text[start:end] != phrase:
        return False
    places = [place for place in (start, end) if 0 < place < len(text)]
    return not any(edges.joined(text[place - 1], text[place]) for place in places)


class _OpenHypothesis(NamedTuple):
    """Hypothesis that can be continued."""

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    attention: tuple[Tensor, ...] = ()  # (S) for each token, if requested
    coverage: Tensor | None = None  # (S), sum over tokens of the mean over heads, if the ranking uses it
    row: int = 0  # row of the state that it continues

    @property
    def total(self) -> float:
        return sum(self.log_probs)


class _StepAttention(NamedTuple):
    """Attention of one step for alignment and coverage, (R, S) each; None where it is not needed."""

    alignment: Tensor | None
    coverage: Tensor | None

    def after(self, hyp: _OpenHypothesis, row: int) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """Return the attention and the coverage of a hypothesis after this step."""
        attention = () if self.alignment is None else (*hyp.attention, self.alignment[row])
        if self.coverage is None:
            return attention, None
        step_coverage = self.coverage[row].double()
        return attention, step_coverage if hyp.coverage is None else hyp.coverage + step_coverage


@torch.inference_mode()
def required_search(
    model: StepModel,
    sentence: Batch,
    options: BeamOptions,
    required: Phrases,
    edges: WordEdges,
    *,
    max_length: int,
    return_attention: bool = False,
    head: Head | None = None,
) -> list[DecodedSequence]:
    """Return the completed hypotheses of one sentence, best first, then those cut at the maximum length.

    At each length, a bank ranks by log P all continuations that contain a given number of required tokens. Only
    hypotheses that contain all of them may end; those that end among the best w are completed. The search stops
    when the completed hypotheses satisfy the stop rule against all open ones. A hypothesis that is cut before
    it contains all required tokens is not returned.
    """
    memory, state = model.start(sentence)
    required_count = sum(map(len, required))
    begins = torch.tensor(edges.begins, device=sentence.source_lengths.device)
    source_length = int(sentence.source_lengths[0])
    opened, completed = [_OpenHypothesis()], list[DecodedSequence]()
    for length in range(1, max_length + 1):
        last = sentence.source_lengths.new_tensor([hyp.tokens[-1] if hyp.tokens else BOS for hyp in opened])
        step = model.step(memory, state, last)
        tokens = last.new_tensor([hyp.tokens for hyp in opened]).view(len(opened), length - 1)
        options.rules.apply(step.log_probs, tokens, partial(torch.zeros_like, last))
        banks: dict[int, list[_OpenHypothesis]] = defaultdict(list)
        attention = _StepAttention(
            attention_of(step, head, "An alignment") if return_attention else None,
            attention_of(step, None, "search.coverage_penalty") if options.ranking.needs_attention else None,
        )
        for hyp in _continuations(opened, step.log_probs, attention, options.width, required, begins):
            ended = hyp.tokens[-1] == EOS
            if ended and count_required(hyp.tokens[:-1], required, edges) < required_count:
                continue
            banks[required_count if ended else count_required(hyp.tokens, required, edges)].append(hyp)
        opened = []
        for bank in banks.values():
            bank.sort(key=lambda hyp: hyp.total, reverse=True)
            completed += [_decoded(hyp, options, source_length) for hyp in bank[: options.width] if _ends(hyp)]
            opened += [hyp for hyp in bank if not _ends(hyp)][: options.width]
        best = max((hyp.total for hyp in opened), default=-math.inf)
        if not opened or options.satisfied(completed, best, length, max_length):
            break
        state = select_rows(step.state, last.new_tensor([hyp.row for hyp in opened]))
    cut = [hyp for hyp in opened if count_required(hyp.tokens, required, edges) == required_count]
    if len(completed) < options.needed:
        completed += [_decoded(hyp, options, source_length) for hyp in cut]
    return sorted(completed, key=lambda decoded: (decoded.finished, decoded.score), reverse=True)


def _continuations(
    opened: Sequence[_OpenHypothesis],
    log_probs: Tensor,
    step_attention: _StepAttention,
    width: int,
    required: Phrases,
    begins: Tensor,
) -> Iterable[_OpenHypothesis]:
    """Yield every continuation of every open hypothesis that can still be kept.

    All tokens outside the required phrases that begin with a letter lead to the same bank, and so do all those
    that do not. So only the w most probable of each kind matter; they are among the w + |required| + 1 most
    probable of their kind (+ 1 for the end of sentence).
    """
    special = sorted({token for phrase in required for token in phrase} | {EOS})
    count = min(width + len(special), log_probs.shape[1])
    kinds = [log_probs.masked_fill(kind, -math.inf).topk(count, dim=1).indices for kind in (begins, ~begins)]
    likely = torch.cat(kinds, dim=1).tolist()
    for row, (hyp, tokens) in enumerate(zip(opened, likely, strict=True)):
        chosen = sorted({*tokens, *special})
        attention, coverage = step_attention.after(hyp, row)
        for token, value in zip(chosen, log_probs[row, chosen].tolist(), strict=True):
            if value > -math.inf:
                yield _OpenHypothesis((*hyp.tokens, token), (*hyp.log_probs, value), attention, coverage, row)


def _ends(hyp: _OpenHypothesis) -> bool:
    return hyp.tokens[-1] == EOS


def _decoded(hyp: _OpenHypothesis, options: BeamOptions, source_length: int) -> DecodedSequence:
    cost = 0.0 if hyp.coverage is None else uncovered(hyp.coverage, source_length)
    return DecodedSequence(
        tokens=list(hyp.tokens[:-1] if _ends(hyp) else hyp.tokens),
        log_probs=list(hyp.log_probs),
        score=options.ranking.score(hyp.total, len(hyp.tokens), cost),
        finished=_ends(hyp),
        attention=torch.stack(hyp.attention) if hyp.attention else None,
    )
