"""Outputs that contain given words: one beam for every number of required tokens generated so far.

Grid beam search (Hokamp & Liu 2017, arXiv:1704.07138). In an ordinary beam a hypothesis that has just generated
an unlikely but required word loses against those that have not. So a hypothesis competes only with those that
have generated the same number of required tokens: each such bank keeps the best w.

A required word counts only as a complete word: "Thomas" is not in "Thomast". A hypothesis that continues a
required word leaves the bank of those that contain it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.decode.observer import report_step
from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import attention_of, uncovered
from seqloom.text.word_edges import WordEdges
from seqloom.types import BOS, EOS, Batch, Head, StepModel, select_rows

Phrase = tuple[int, ...]
Forms = tuple[Phrase, ...]  # one of these phrases must occur; the forms of one word, for example


class Requirements:
    """Phrases that a text must contain as complete words.

    Each requirement is a phrase with its other forms, of which any one counts. A requirement that is given
    several times must occur as often, without overlap.
    """

    def __init__(self, required: Sequence[Forms], edges: WordEdges) -> None:
        self._times, self.edges = Counter(required), edges
        self.total = sum(map(_size, required))
        self.tokens = {token for forms in required for phrase in forms for token in phrase}

    def count(self, tokens: Sequence[int]) -> int:
        """Return how many of the required tokens a text contains; all of them are `total`.

        A requirement that is met counts as the longest of its forms; of the others, only the longest beginning
        of a form with which the text ends counts.
        """
        text, met, begun = tuple(tokens), 0, 0
        for forms, times in self._times.items():
            found = min(times, self._occurrences(text, forms))
            met += found * _size(forms)
            if found < times:
                begun = max(begun, *(self._begun(text, phrase) for phrase in forms))
        return met + begun

    def met(self, text: Phrase, *, is_continued: bool) -> int:
        """Return the number of tokens of the requirements that a text meets; its last word may be continued."""
        return sum(
            min(times, self._occurrences(text, forms, is_continued=is_continued)) * _size(forms)
            for forms, times in self._times.items()
        )

    def _occurrences(self, text: Phrase, forms: Forms, *, is_continued: bool = False) -> int:
        """Return the largest number of occurrences that do not overlap: always take the one that ends first."""
        found = (
            (start + len(phrase), start)
            for phrase in set(forms)
            for start in _positions(text, phrase[0])
            if _occurs_at(text, phrase, start, self.edges)
        )
        count, free = 0, 0
        for end, start in sorted(found):
            if start >= free and not (is_continued and end == len(text)):
                count, free = count + 1, end
        return count

    def _begun(self, text: Phrase, phrase: Phrase) -> int:
        """Return the length of the longest beginning of a phrase with which the text ends."""
        lengths = range(min(len(phrase) - 1, len(text)), 0, -1)
        return next((n for n in lengths if _occurs_at(text, phrase[:n], len(text) - n, self.edges)), 0)


def _positions(text: Phrase, token: int) -> Iterator[int]:
    place = -1
    for _ in range(text.count(token)):
        place = text.index(token, place + 1)
        yield place


def _size(forms: Forms) -> int:
    return max(map(len, forms))


def _occurs_at(text: tuple[int, ...], phrase: tuple[int, ...], start: int, edges: WordEdges) -> bool:
    """Return whether the phrase begins at `start`, with a word boundary or a text boundary on both sides."""
    end = start + len(phrase)
    if start < 0 or text[start:end] != phrase:
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
    required: Requirements,
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
    begins = torch.tensor(required.edges.begins, device=sentence.source_lengths.device)
    source_length = int(sentence.source_lengths[0])
    opened, completed = [_OpenHypothesis()], list[DecodedSequence]()
    for length in range(1, max_length + 1):
        last = sentence.source_lengths.new_tensor([hyp.tokens[-1] if hyp.tokens else BOS for hyp in opened])
        step = model.step(memory, state, last)
        tokens = last.new_tensor([hyp.tokens for hyp in opened]).view(len(opened), length - 1)
        options.rules.apply(step.log_probs, tokens, partial(torch.zeros_like, last))
        banks: dict[int, list[_OpenHypothesis]] = defaultdict(list)
        known: dict[tuple[int, bool], int] = {}
        attention = _StepAttention(
            attention_of(step, head, "An alignment") if return_attention else None,
            attention_of(step, None, "search.coverage_penalty") if options.ranking.needs_attention else None,
        )
        for hyp in _continuations(opened, step.log_probs, attention, options.width, required, begins):
            contained = _contained(hyp, required, known)
            if contained == required.total or not _ends(hyp):
                banks[contained].append(hyp)
        opened = []
        for bank in banks.values():
            bank.sort(key=lambda hyp: hyp.total, reverse=True)
            completed += [_decoded(hyp, options, source_length) for hyp in bank[: options.width] if _ends(hyp)]
            opened += [hyp for hyp in bank if not _ends(hyp)][: options.width]
        best = max((hyp.total for hyp in opened), default=-math.inf)
        if not opened or options.satisfied(completed, best, length, max_length):
            break
        report_step(partial(_best_tokens, opened))
        state = select_rows(step.state, last.new_tensor([hyp.row for hyp in opened]))
    cut = [hyp for hyp in opened if required.count(hyp.tokens) == required.total]
    if len(completed) < options.needed:
        completed += [_decoded(hyp, options, source_length) for hyp in cut]
    return sorted(completed, key=lambda decoded: (decoded.finished, decoded.score), reverse=True)


def _best_tokens(opened: Sequence[_OpenHypothesis]) -> list[int]:
    return list(max(opened, key=lambda hyp: hyp.total).tokens)


def _continuations(
    opened: Sequence[_OpenHypothesis],
    log_probs: Tensor,
    step_attention: _StepAttention,
    width: int,
    required: Requirements,
    begins: Tensor,
) -> Iterable[_OpenHypothesis]:
    """Yield every continuation of every open hypothesis that can still be kept.

    All tokens outside the required phrases that begin with a letter lead to the same bank, and so do all those
    that do not. So only the w most probable of each kind matter; they are among the w + |required| + 1 most
    probable of their kind (+ 1 for the end of sentence).
    """
    special = sorted(required.tokens | {EOS})
    count = min(width + len(special), log_probs.shape[1])
    kinds = [log_probs.masked_fill(kind, -math.inf).topk(count, dim=1).indices for kind in (begins, ~begins)]
    likely = torch.cat(kinds, dim=1).tolist()
    for row, (hyp, tokens) in enumerate(zip(opened, likely, strict=True)):
        chosen = sorted({*tokens, *special})
        attention, coverage = step_attention.after(hyp, row)
        for token, value in zip(chosen, log_probs[row, chosen].tolist(), strict=True):
            if value > -math.inf:
                yield _OpenHypothesis((*hyp.tokens, token), (*hyp.log_probs, value), attention, coverage, row)


def _contained(hyp: _OpenHypothesis, required: Requirements, known: dict[tuple[int, bool], int]) -> int:
    """Return how many of the required tokens a continuation contains.

    After a token that no requirement has, this is determined by the hypothesis that it continues and by whether
    it continues its last word: `known` has the numbers of this step.
    """
    *text, token = hyp.tokens
    if token in required.tokens:
        return required.count(hyp.tokens)
    key = hyp.row, token != EOS and bool(text) and required.edges.joined(text[-1], token)
    if key not in known:
        known[key] = required.met(tuple(text), is_continued=key[1])
    return known[key]


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
