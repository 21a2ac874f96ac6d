"""Beam search over `start` and `step`, batched; greedy search is a beam of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.types import BOS, EOS, PAD, Batch, StepModel, Tree, select_rows


class Found(NamedTuple):
    """A completed hypothesis, or one cut at the maximum length."""

    tokens: list[int]  # without the end of sentence
    log_probs: list[float]  # one per token and one for the end, if it was reached
    score: float  # total log-probability / length^penalty
    finished: bool
    attention: Tensor | None  # (tokens + end, S)


@dataclass
class _Beam:
    """The open hypotheses of the sentences still being translated: row r belongs to sentence r // K."""

    sentences: list[int]  # positions in the batch
    memory: Tree
    state: Tree
    totals: Tensor  # (B, K) log P so far
    last: Tensor  # (R,) the newest token of each row
    history: Tree  # tokens (R, t), log_probs (R, t) and, if wanted, attention (R, t, S)


@torch.inference_mode()
def beam_search(
    model: StepModel,
    batch: Batch,
    *,
    beam: int,
    max_lengths: Sequence[int],
    length_penalty: float = 1.0,
    want_attention: bool = False,
) -> list[list[Found]]:
    """For every sentence its completed hypotheses, best first.

    A hypothesis that takes the end symbol while it ranks among the best `beam` continuations is completed.
    A sentence is done when `beam` hypotheses are completed and none still open scores better than the best of
    them, or at its maximum length, where those still open are cut (and ranked after all completed ones).
    """
    found: list[list[Found]] = [[] for _ in max_lengths]
    front = _begin(model, batch, want_attention)
    for length in range(1, max(max_lengths, default=0) + 1):
        step = model.step(front.memory, front.state, front.last)
        choice = _best_continuations(step.log_probs, front.totals, beam)
        history = _extend(front.history, step.attention if want_attention else None)
        for row, rank in _ended(choice, beam):
            found[front.sentences[row]].append(_complete(choice, history, row, rank, length**length_penalty))
        front = _advance(front, choice, history, step.state, beam)
        best_open = (front.totals[:, 0] / length**length_penalty).tolist()
        done = [
            length >= max_lengths[s] or score == -math.inf or _beaten(score, found[s], beam)
            for s, score in zip(front.sentences, best_open, strict=True)
        ]
        if any(done):
            for position, sentence in enumerate(front.sentences):
                if done[position] and len(found[sentence]) < beam:
                    found[sentence] += _cut(front, position, beam, length**length_penalty)
            front = _drop(front, done, beam)
        if not front.sentences:
            break
    return [sorted(hypotheses, key=lambda f: (f.finished, f.score), reverse=True) for hypotheses in found]


def _beaten(best_open: float, found: list[Found], beam: int) -> bool:
    """Whether enough is completed, and the best of it is ahead of all that is still open."""
    return len(found) >= beam and max(one.score for one in found) >= best_open


class _Choice(NamedTuple):
    """The best continuations of every sentence, best first: (B, at most 2K)."""

    totals: Tensor
    rows: Tensor  # which open row it extends
    tokens: Tensor
    log_probs: Tensor  # of that token alone


def _begin(model: StepModel, batch: Batch, want_attention: bool) -> _Beam:
    memory, state = model.start(batch)
    count = batch.source.shape[0]
    device = batch.source.device
    history = {
        "tokens": torch.empty(count, 0, dtype=torch.long, device=device),
        "log_probs": torch.empty(count, 0, device=device),
        "attention": torch.empty(count, 0, batch.source.shape[1], device=device) if want_attention else None,
    }
    return _Beam(
        sentences=list(range(count)),
        memory=memory,
        state=state,
        totals=torch.zeros(count, 1, device=device),
        last=torch.full((count,), BOS, device=device),
        history=history,
    )


def _best_continuations(log_probs: Tensor, totals: Tensor, beam: int) -> _Choice:
    """The best 2K of a sentence's K x V continuations: at most K of them end, so K go on."""
    log_probs[:, (PAD, BOS)] = -torch.inf  # never part of an answer
    sentences, open_rows = totals.shape
    values, tokens = log_probs.topk(min(2 * beam, log_probs.shape[1]), dim=1)  # (R, n): no other can win
    sums = (totals.view(-1, 1) + values).view(sentences, -1)  # (B, K n)
    best, where = sums.topk(min(2 * beam, sums.shape[1]), dim=1)
    first_row = torch.arange(sentences, device=totals.device).unsqueeze(1) * open_rows
    return _Choice(
        totals=best,
        rows=first_row + where // values.shape[1],
        tokens=tokens.view(sentences, -1).gather(1, where),
        log_probs=values.view(sentences, -1).gather(1, where),
    )


def _ended(choice: _Choice, beam: int) -> list[list[int]]:
    """(sentence position, rank) of the continuations that end among the best K."""
    ends = (choice.tokens[:, :beam] == EOS) & choice.totals[:, :beam].isfinite()
    ended: list[list[int]] = ends.nonzero().tolist()
    return ended


def _extend(history: Tree, attention: Tensor | None) -> Tree:
    """The history with this step's attention; its tokens are not chosen yet."""
    if attention is None:
        return history
    return {**history, "attention": torch.cat((history["attention"], attention.unsqueeze(1)), dim=1)}


def _complete(choice: _Choice, history: Tree, position: int, rank: int, divisor: float) -> Found:
    row = int(choice.rows[position, rank])
    attention = history["attention"]
    return Found(
        tokens=history["tokens"][row].tolist(),
        log_probs=[*history["log_probs"][row].tolist(), float(choice.log_probs[position, rank])],
        score=float(choice.totals[position, rank]) / divisor,
        finished=True,
        attention=None if attention is None else attention[row].clone(),
    )


def _advance(front: _Beam, choice: _Choice, history: Tree, state: Tree, beam: int) -> _Beam:
    """The beam one token longer: the best K continuations that do not end."""
    ends = choice.tokens == EOS
    kept = min(beam, choice.tokens.shape[1])
    # A stable sort by "ends" keeps the ranking among those that go on.
    order = ends.to(torch.int8).argsort(dim=1, stable=True)[:, :kept]
    totals = choice.totals.masked_fill(ends, -torch.inf).gather(1, order)
    rows = choice.rows.gather(1, order).flatten()
    tokens = choice.tokens.gather(1, order).flatten()
    log_probs = choice.log_probs.gather(1, order).flatten()
    chosen = select_rows(history, rows)
    return _Beam(
        sentences=front.sentences,
        memory=front.memory,
        state=select_rows(state, rows),
        totals=totals,
        last=tokens,
        history={
            "tokens": torch.cat((chosen["tokens"], tokens.unsqueeze(1)), dim=1),
            "log_probs": torch.cat((chosen["log_probs"], log_probs.unsqueeze(1)), dim=1),
            "attention": chosen["attention"],
        },
    )


def _cut(front: _Beam, position: int, beam: int, divisor: float) -> list[Found]:
    """The open hypotheses of a sentence at its maximum length."""
    per_sentence = front.totals.shape[1]
    cut = []
    for rank in range(min(beam, per_sentence)):
        row = position * per_sentence + rank
        total = float(front.totals[position, rank])
        if total == -torch.inf:
            continue
        attention = front.history["attention"]
        cut.append(
            Found(
                tokens=front.history["tokens"][row].tolist(),
                log_probs=front.history["log_probs"][row].tolist(),
                score=total / divisor,
                finished=False,
                attention=None if attention is None else attention[row].clone(),
            )
        )
    return cut


def _drop(front: _Beam, done: list[bool], beam: int) -> _Beam:
    """The beam without the sentences that are done."""
    device = front.totals.device
    left = [position for position, over in enumerate(done) if not over]
    sentences = torch.tensor(left, dtype=torch.long, device=device)
    per_sentence = front.totals.shape[1]
    rows = (sentences.unsqueeze(1) * per_sentence + torch.arange(per_sentence, device=device)).flatten()
    return _Beam(
        sentences=[front.sentences[position] for position in left],
        memory=select_rows(front.memory, sentences),
        state=select_rows(front.state, rows),
        totals=front.totals[sentences],
        last=front.last[rows],
        history=select_rows(front.history, rows),
    )
