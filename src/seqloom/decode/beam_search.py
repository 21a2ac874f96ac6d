"""Beam search over `start` and `step`, batched; greedy search is a beam of one.

What it means is written down in `reference.py`, one hypothesis at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import Ranking, attention_of, uncovered
from seqloom.types import BOS, EOS, Batch, Head, Step, StepModel, Tree, select_rows


@dataclass
class _Beam:
    """The open hypotheses of the sentences still being translated.

    A sentence has G groups of k rows side by side: row r belongs to sentence r // (G k).
    """

    sentences: list[int]  # positions in the batch
    memory: Tree
    state: Tree
    totals: Tensor  # (B, G, k) log P so far
    last: Tensor  # (R,) the newest token of each row
    history: Tree  # tokens (R, t), log_probs (R, t); if needed attention (R, t, S) and coverage (R, S)

    @property
    def rows_per_sentence(self) -> int:
        return self.totals.shape[1] * self.totals.shape[2]

    def sentence_of_rows(self) -> Tensor:
        """(R,) the position in the batch of the sentence of each row."""
        sentences = torch.tensor(self.sentences, device=self.last.device)
        return sentences.repeat_interleave(self.rows_per_sentence)


@torch.inference_mode()
def beam_search(
    model: StepModel,
    batch: Batch,
    plan: BeamOptions,
    *,
    max_lengths: Sequence[int],
    want_attention: bool = False,
    head: Head | None = None,
) -> list[list[DecodedSequence]]:
    """Return for every sentence its completed hypotheses, best first, then those cut at the maximum length.

    The attention, if it is wanted, is that of one head, or the mean of all. The coverage penalty always uses
    the mean. A sentence for which nothing is possible has an empty list.
    """
    found: list[list[list[DecodedSequence]]] = [[[] for _ in range(plan.groups)] for _ in max_lengths]
    source_lengths = batch.source_lengths.tolist()
    memory, state = model.start(batch)
    front = _begin(memory, state, batch, plan, want_attention)
    for length in range(1, max(max_lengths, default=0) + 1):
        step = model.step(front.memory, front.state, front.last)
        history = _with_attention(front.history, step, head)
        plan.rules.apply(step.log_probs, history["tokens"], front.sentence_of_rows)
        choices = _best_continuations(step.log_probs, front.totals, plan)
        for group, choice in enumerate(choices):
            for position, rank in _ended(choice, plan.width):
                sentence = front.sentences[position]
                whole = _complete(choice, history, position, rank, plan.ranking, source_lengths[sentence])
                found[sentence][group].append(whole)
        front, parents = _advance(front, choices, history, plan.width)
        done = _done_groups(front, found, plan, length, max_lengths)
        for position in _where(done, all):
            sentence = front.sentences[position]
            _finish_open(front, position, found[sentence], plan, source_lengths[sentence])
        if any(map(any, done)):
            over = torch.tensor(done, device=front.totals.device).unsqueeze(2)
            front.totals = front.totals.masked_fill(
                over, -math.inf
            )  # a group that is done waits for the others
        front = _drop_finished(front, _where(done, all), step.state, parents)
        if not front.sentences:
            break
    return [
        sorted((one for group in groups for one in group), key=lambda f: (f.finished, f.score), reverse=True)
        for groups in found
    ]


class _Candidates(NamedTuple):
    """Continuations of one group of every sentence, best first: (B, n)."""

    totals: Tensor
    rows: Tensor  # which open row it extends
    tokens: Tensor
    log_probs: Tensor  # of that token alone

    def take(self, places: Tensor) -> _Candidates:
        """Those at these places (B, m) of each sentence."""
        return _Candidates(*(part.gather(1, places) for part in self))


def _begin(memory: Tree, state: Tree, batch: Batch, plan: BeamOptions, want_attention: bool) -> _Beam:
    (count, width), device = batch.source.shape[:2], batch.source.device
    rows = torch.arange(count, device=device).repeat_interleave(plan.groups)
    history = {
        "tokens": torch.empty(len(rows), 0, dtype=torch.long, device=device),
        "log_probs": torch.empty(len(rows), 0, device=device),
        "attention": torch.empty(len(rows), 0, width, device=device) if want_attention else None,
        "coverage": torch.zeros(len(rows), width, dtype=torch.float64, device=device)
        if plan.ranking.needs_attention
        else None,
    }
    return _Beam(
        sentences=list(range(count)),
        memory=memory,
        state=state if plan.groups == 1 else select_rows(state, rows),
        totals=torch.zeros(count, plan.groups, 1, device=device),
        last=torch.full((len(rows),), BOS, device=device),
        history=history,
    )


def _with_attention(history: Tree, step: Step, head: Head | None) -> Tree:
    """Return the history with this step's attention; its tokens are not chosen yet."""
    history = dict(history)
    if history["coverage"] is not None:
        history["coverage"] = history["coverage"] + attention_of(step, None, "search.coverage_penalty")
    if history["attention"] is not None:
        attention = attention_of(step, head, "An alignment").unsqueeze(1)
        history["attention"] = torch.cat((history["attention"], attention), dim=1)
    return history


def _best_continuations(log_probs: Tensor, totals: Tensor, plan: BeamOptions) -> list[_Candidates]:
    """The best 2w continuations of every group: at most w of them end, so w go on.

    A group ranks by log P less what earlier groups take off the tokens that they go on with.
    """
    sentences, groups, open_rows = totals.shape
    scores = log_probs.view(sentences, groups, open_rows, -1)
    taken = scores.new_zeros(sentences, 1, scores.shape[-1]) if groups > 1 and plan.diversity else None
    choices = []
    for group in range(groups):
        own = scores[:, group]
        ranked = own if taken is None else own - plan.diversity * taken
        row, token, possible = _best_sums(ranked, totals[:, group], 2 * plan.width)
        log_prob = own.flatten(1).gather(1, row * own.shape[2] + token)
        total = (totals[:, group].gather(1, row) + log_prob).masked_fill(~possible, -math.inf)
        first = (torch.arange(sentences, device=totals.device) * groups + group).unsqueeze(1) * open_rows
        choice = _Candidates(total, first + row, token, log_prob)
        if taken is not None:
            kept = choice.take(_still_open(choice, plan.width))
            taken.scatter_add_(2, kept.tokens.unsqueeze(1), kept.totals.isfinite().to(taken.dtype).unsqueeze(1))
        choices.append(choice)
    return choices


def _best_sums(scores: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Row and token (B, n) of the best of totals (B, k) + scores (B, k, V), best first; which are possible.

    The n best of a sentence stand in the n blocks of tokens whose largest sums are the largest, so that only
    these blocks of about √V tokens are searched: to find the largest is much quicker than to sort.
    """
    rows, tokens = scores.shape[1:]
    size = math.isqrt(tokens)
    whole = tokens - tokens % size
    largest = scores[..., :whole].view(*scores.shape[:2], -1, size).amax(dim=3)
    if whole < tokens:
        largest = torch.cat((largest, scores[..., whole:].amax(dim=2, keepdim=True)), dim=2)
    if bool(largest.isnan().any()):  # as if impossible: topk would take NaN for the largest
        return _best_sums(scores.nan_to_num(nan=-math.inf), totals, count)
    blocks = largest.shape[2]
    count = min(count, rows * tokens)
    chosen = (totals.unsqueeze(2) + largest).flatten(1).topk(min(count, rows * blocks), dim=1).indices
    row = (chosen // blocks).unsqueeze(2)
    token = (chosen % blocks * size).unsqueeze(2) + torch.arange(size, device=scores.device)  # (B, n, size)
    place = (row * tokens + token.clamp_max(tokens - 1)).flatten(1)
    sums = totals.gather(1, row.flatten(1)).unsqueeze(2) + scores.flatten(1).gather(1, place).view_as(token)
    best = sums.masked_fill(token >= tokens, -math.inf).flatten(1).topk(count, dim=1)  # the last block is short
    place = place.gather(1, best.indices)
    return place // tokens, place % tokens, best.values.isfinite()


def _ended(choice: _Candidates, width: int) -> list[list[int]]:
    """(sentence position, rank) of the continuations that end among the best w."""
    ends = (choice.tokens[:, :width] == EOS) & choice.totals[:, :width].isfinite()
    ended: list[list[int]] = ends.nonzero().tolist()
    return ended


def _still_open(choice: _Candidates, width: int) -> Tensor:
    """The places (B, at most w) of the best that do not end; a stable sort keeps their order."""
    ends = (choice.tokens == EOS).to(torch.int8)
    return ends.argsort(dim=1, stable=True)[:, : min(width, choice.tokens.shape[1])]


def _complete(
    choice: _Candidates, history: Tree, position: int, rank: int, ranking: Ranking, source_length: int
) -> DecodedSequence:
    row = int(choice.rows[position, rank])
    log_probs = [*history["log_probs"][row].tolist(), float(choice.log_probs[position, rank])]
    total = float(choice.totals[position, rank])
    return DecodedSequence(
        tokens=history["tokens"][row].tolist(),
        log_probs=log_probs,
        score=_score(total, len(log_probs), history, row, ranking, source_length),
        finished=True,
        attention=None if history["attention"] is None else history["attention"][row].clone(),
    )


def _score(total: float, length: int, history: Tree, row: int, ranking: Ranking, source_length: int) -> float:
    if history["coverage"] is None:
        return ranking.score(total, length)
    return ranking.score(total, length, uncovered(history["coverage"][row], source_length))


def _advance(front: _Beam, choices: list[_Candidates], history: Tree, width: int) -> tuple[_Beam, Tensor]:
    """The front one token longer, without its state, and the row that each of its rows comes from.

    Of every group the best w continuations that do not end.
    """
    kept = [choice.take(_still_open(choice, width)) for choice in choices]
    ends = torch.stack([choice.tokens for choice in kept], dim=1) == EOS  # too few go on
    rows, tokens, log_probs = (
        torch.stack([choice[part] for choice in kept], dim=1).flatten() for part in (1, 2, 3)
    )
    chosen = select_rows(history, rows)
    longer = _Beam(
        sentences=front.sentences,
        memory=front.memory,
        state=None,
        totals=torch.stack([choice.totals for choice in kept], dim=1).masked_fill(ends, -math.inf),
        last=tokens,
        history={
            "tokens": torch.cat((chosen["tokens"], tokens.unsqueeze(1)), dim=1),
            "log_probs": torch.cat((chosen["log_probs"], log_probs.unsqueeze(1)), dim=1),
            "attention": chosen["attention"],
            "coverage": chosen["coverage"],
        },
    )
    return longer, rows


def _done_groups(
    front: _Beam,
    found: list[list[list[DecodedSequence]]],
    plan: BeamOptions,
    length: int,
    max_lengths: Sequence[int],
) -> list[list[bool]]:
    """For every sentence and group whether it is over."""
    best_open: list[list[float]] = front.totals.amax(dim=2).tolist()
    return [
        [
            length >= max_lengths[sentence]
            or total == -math.inf
            or plan.satisfied(found[sentence][group], total, length, max_lengths[sentence])
            for group, total in enumerate(totals)
        ]
        for sentence, totals in zip(front.sentences, best_open, strict=True)
    ]


def _where(done: list[list[bool]], how: Callable[[list[bool]], bool]) -> list[int]:
    return [position for position, groups in enumerate(done) if how(groups)]


def _finish_open(
    front: _Beam, position: int, found: list[list[DecodedSequence]], plan: BeamOptions, source_length: int
) -> None:
    """Adds the open hypotheses of a sentence that is over, to the groups that have too few completed ones."""
    width = front.totals.shape[2]
    for group, completed in enumerate(found):
        if len(completed) >= plan.needed:
            continue
        for rank, total in enumerate(front.totals[position, group].tolist()):
            if total == -math.inf:
                continue
            row = (position * plan.groups + group) * width + rank
            attention = front.history["attention"]
            tokens = front.history["tokens"][row].tolist()
            completed.append(
                DecodedSequence(
                    tokens=tokens,
                    log_probs=front.history["log_probs"][row].tolist(),
                    score=_score(total, len(tokens), front.history, row, plan.ranking, source_length),
                    finished=False,
                    attention=None if attention is None else attention[row].clone(),
                )
            )


def _drop_finished(front: _Beam, over: list[int], state: Tree, parents: Tensor) -> _Beam:
    """The front without the sentences at these positions, with the state that its rows come from.

    The state is the largest thing here: it is copied once, for what is dropped and who follows whom together,
    and not at all where every row follows itself, as all do in a greedy search.
    """
    if not over:
        front.state = state if front.rows_per_sentence == 1 else select_rows(state, parents)
        return front
    device, gone = front.totals.device, set(over)
    left = [position for position in range(len(front.sentences)) if position not in gone]
    sentences = torch.tensor(left, dtype=torch.long, device=device)
    each = torch.arange(front.rows_per_sentence, device=device)
    rows = (sentences.unsqueeze(1) * front.rows_per_sentence + each).flatten()
    return _Beam(
        sentences=[front.sentences[position] for position in left],
        memory=select_rows(front.memory, sentences),
        state=select_rows(state, parents[rows]),
        totals=front.totals[sentences],
        last=front.last[rows],
        history=select_rows(front.history, rows),
    )
