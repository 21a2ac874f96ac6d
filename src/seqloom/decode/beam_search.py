"""Batched beam search over `start` and `step`; greedy search is a beam of one.

`reference.py` defines the result, one hypothesis at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.decode.observer import report_step
from seqloom.decode.options import BeamOptions, DecodedSequence
from seqloom.decode.ranking import Ranking, attention_of, uncovered
from seqloom.types import BOS, EOS, Batch, Head, Step, StepModel, Tree, select_rows


@dataclass
class _Beam:
    """Open hypotheses of the sentences that are still being translated.

    A sentence has G groups of k adjacent rows: row r belongs to sentence r // (G k).
    """

    sentences: list[int]  # positions in the batch
    memory: Tree
    state: Tree
    totals: Tensor  # (B, G, k) log P so far
    last: Tensor  # (R,) last token of each row
    history: Tree  # tokens (R, t), log_probs (R, t); if needed, attention (R, t, S) and coverage (R, S)

    @property
    def rows_per_sentence(self) -> int:
        return self.totals.shape[1] * self.totals.shape[2]

    def sentence_of_rows(self) -> Tensor:
        """Return the position in the batch of each row's sentence, (R,)."""
        sentences = torch.tensor(self.sentences, device=self.last.device)
        return sentences.repeat_interleave(self.rows_per_sentence)


@torch.inference_mode()
def beam_search(
    model: StepModel,
    batch: Batch,
    options: BeamOptions,
    *,
    max_lengths: Sequence[int],
    return_attention: bool = False,
    head: Head | None = None,
) -> list[list[DecodedSequence]]:
    """Return the completed hypotheses of each sentence, best first, then those cut at the maximum length.

    The returned attention is that of `head`, or the mean of all heads. The coverage penalty always uses the
    mean. The list of a sentence without any possible output is empty.
    """
    found: list[list[list[DecodedSequence]]] = [[[] for _ in range(options.groups)] for _ in max_lengths]
    source_lengths = batch.source_lengths.tolist()
    memory, state = model.start(batch)
    beam = _initial_beam(memory, state, batch, options, return_attention)
    for length in range(1, max(max_lengths, default=0) + 1):
        step = model.step(beam.memory, beam.state, beam.last)
        history = _with_attention(beam.history, step, head)
        options.rules.apply(step.log_probs, history["tokens"], beam.sentence_of_rows)
        candidates_by_group = _best_continuations(step.log_probs, beam.totals, options)
        for group, candidates in enumerate(candidates_by_group):
            for position, rank in _ended(candidates, options.width):
                sentence = beam.sentences[position]
                hypothesis = _complete(
                    candidates, history, position, rank, options.ranking, source_lengths[sentence]
                )
                found[sentence][group].append(hypothesis)
        beam, parents = _advance(beam, candidates_by_group, history, options.width)
        done = _done_groups(beam, found, options, length, max_lengths)
        for position in _where(done, all):
            sentence = beam.sentences[position]
            _finish_open(beam, position, found[sentence], options, source_lengths[sentence])
        if any(map(any, done)):
            # A group that is done waits for the other groups of its sentence.
            is_done = torch.tensor(done, device=beam.totals.device).unsqueeze(2)
            beam.totals = beam.totals.masked_fill(is_done, -math.inf)
        beam = _drop_finished(beam, _where(done, all), step.state, parents)
        if not beam.sentences:
            break
        report_step(partial(_first_tokens, beam))
    return [
        sorted(itertools.chain.from_iterable(groups), key=lambda f: (f.finished, f.score), reverse=True)
        for groups in found
    ]


def _first_tokens(beam: _Beam) -> list[int]:
    """Return the tokens of the best open hypothesis of the first sentence."""
    row = int(beam.totals[0].flatten().argmax())
    tokens: list[int] = beam.history["tokens"][row].tolist()
    return tokens


class _Candidates(NamedTuple):
    """Continuations of one group of each sentence, best first: (B, n)."""

    totals: Tensor
    rows: Tensor  # the open rows that they extend
    tokens: Tensor
    log_probs: Tensor  # of these tokens alone

    def take(self, places: Tensor) -> _Candidates:
        """Return the continuations at these positions (B, m) of each sentence."""
        return _Candidates(*(part.gather(1, places) for part in self))


def _initial_beam(
    memory: Tree, state: Tree, batch: Batch, options: BeamOptions, return_attention: bool
) -> _Beam:
    (count, width), device = batch.source.shape[:2], batch.source.device
    rows = torch.arange(count, device=device).repeat_interleave(options.groups)
    history = {
        "tokens": torch.empty(len(rows), 0, dtype=torch.long, device=device),
        "log_probs": torch.empty(len(rows), 0, device=device),
        "attention": torch.empty(len(rows), 0, width, device=device) if return_attention else None,
        "coverage": torch.zeros(len(rows), width, dtype=torch.float64, device=device)
        if options.ranking.needs_attention
        else None,
    }
    return _Beam(
        sentences=list(range(count)),
        memory=memory,
        state=state if options.groups == 1 else select_rows(state, rows),
        totals=torch.zeros(count, options.groups, 1, device=device),
        last=torch.full((len(rows),), BOS, device=device),
        history=history,
    )


def _with_attention(history: Tree, step: Step, head: Head | None) -> Tree:
    """Return the history with the attention of this step, whose tokens are not chosen yet."""
    history = dict(history)
    if history["coverage"] is not None:
        history["coverage"] = history["coverage"] + attention_of(step, None, "search.coverage_penalty")
    if history["attention"] is not None:
        attention = attention_of(step, head, "An alignment").unsqueeze(1)
        history["attention"] = torch.cat((history["attention"], attention), dim=1)
    return history


def _best_continuations(log_probs: Tensor, totals: Tensor, options: BeamOptions) -> list[_Candidates]:
    """Return the best 2w continuations of each group: at most w of them end, so at least w stay open.

    A group ranks them by log P minus the diversity penalty for tokens with which earlier groups continue.
    """
    sentences, groups, open_rows = totals.shape
    scores = log_probs.view(sentences, groups, open_rows, -1)
    taken = scores.new_zeros(sentences, 1, scores.shape[-1]) if groups > 1 and options.diversity else None
    candidates_by_group = []
    for group in range(groups):
        own = scores[:, group]
        ranked = own if taken is None else own - options.diversity * taken
        row, token, possible = _best_sums(ranked, totals[:, group], 2 * options.width)
        log_prob = own.flatten(1).gather(1, row * own.shape[2] + token)
        total = (totals[:, group].gather(1, row) + log_prob).masked_fill(~possible, -math.inf)
        first = (torch.arange(sentences, device=totals.device) * groups + group).unsqueeze(1) * open_rows
        candidates = _Candidates(total, first + row, token, log_prob)
        if taken is not None:
            kept = candidates.take(_still_open(candidates, options.width))
            taken.scatter_add_(2, kept.tokens.unsqueeze(1), kept.totals.isfinite().to(taken.dtype).unsqueeze(1))
        candidates_by_group.append(candidates)
    return candidates_by_group


def _best_sums(scores: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows and tokens (B, n) of the largest totals (B, k) + scores (B, k, V), and which are finite.

    The n largest sums of a sentence are in the n blocks of tokens with the largest maxima, so only these blocks
    of about √V tokens are sorted: finding a maximum is much faster than sorting.
    """
    rows, tokens = scores.shape[1:]
    size = math.isqrt(tokens)
    full = tokens - tokens % size
    largest = scores[..., :full].view(*scores.shape[:2], -1, size).amax(dim=3)
    if full < tokens:
        largest = torch.cat((largest, scores[..., full:].amax(dim=2, keepdim=True)), dim=2)
    if bool(largest.isnan().any()):  # treated as impossible: topk would rank NaN highest
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


def _ended(candidates: _Candidates, width: int) -> list[list[int]]:
    """Return (sentence position, rank) of those of the best w continuations that end."""
    ends = (candidates.tokens[:, :width] == EOS) & candidates.totals[:, :width].isfinite()
    ended: list[list[int]] = ends.nonzero().tolist()
    return ended


def _still_open(candidates: _Candidates, width: int) -> Tensor:
    """Return the positions (B, at most w) of the best that do not end; a stable sort keeps their order."""
    ends = (candidates.tokens == EOS).to(torch.int8)
    return ends.argsort(dim=1, stable=True)[:, : min(width, candidates.tokens.shape[1])]


def _complete(
    candidates: _Candidates, history: Tree, position: int, rank: int, ranking: Ranking, source_length: int
) -> DecodedSequence:
    row = int(candidates.rows[position, rank])
    log_probs = [*history["log_probs"][row].tolist(), float(candidates.log_probs[position, rank])]
    total = float(candidates.totals[position, rank])
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


def _advance(
    beam: _Beam, candidates_by_group: list[_Candidates], history: Tree, width: int
) -> tuple[_Beam, Tensor]:
    """Return the beam extended by one token, without its state, and the parent of each of its rows.

    Each group keeps the best w continuations that do not end.
    """
    kept = [candidates.take(_still_open(candidates, width)) for candidates in candidates_by_group]
    ends = torch.stack([candidates.tokens for candidates in kept], dim=1) == EOS  # where fewer than w stay open
    rows, tokens, log_probs = (
        torch.stack([candidates[part] for candidates in kept], dim=1).flatten() for part in (1, 2, 3)
    )
    chosen = select_rows(history, rows)
    extended = _Beam(
        sentences=beam.sentences,
        memory=beam.memory,
        state=None,
        totals=torch.stack([candidates.totals for candidates in kept], dim=1).masked_fill(ends, -math.inf),
        last=tokens,
        history={
            "tokens": torch.cat((chosen["tokens"], tokens.unsqueeze(1)), dim=1),
            "log_probs": torch.cat((chosen["log_probs"], log_probs.unsqueeze(1)), dim=1),
            "attention": chosen["attention"],
            "coverage": chosen["coverage"],
        },
    )
    return extended, rows


def _done_groups(
    beam: _Beam,
    found: list[list[list[DecodedSequence]]],
    options: BeamOptions,
    length: int,
    max_lengths: Sequence[int],
) -> list[list[bool]]:
    """Return for each sentence and group whether its search is over."""
    best_open: list[list[float]] = beam.totals.amax(dim=2).tolist()
    return [
        [
            length >= max_lengths[sentence]
            or total == -math.inf
            or options.satisfied(found[sentence][group], total, length, max_lengths[sentence])
            for group, total in enumerate(totals)
        ]
        for sentence, totals in zip(beam.sentences, best_open, strict=True)
    ]


def _where(done: list[list[bool]], predicate: Callable[[list[bool]], bool]) -> list[int]:
    return [position for position, groups in enumerate(done) if predicate(groups)]


def _finish_open(
    beam: _Beam, position: int, found: list[list[DecodedSequence]], options: BeamOptions, source_length: int
) -> None:
    """Add the open hypotheses of a finished sentence to the groups with too few completed ones."""
    width = beam.totals.shape[2]
    for group, completed in enumerate(found):
        if len(completed) >= options.needed:
            continue
        for rank, total in enumerate(beam.totals[position, group].tolist()):
            if total == -math.inf:
                continue
            row = (position * options.groups + group) * width + rank
            attention = beam.history["attention"]
            tokens = beam.history["tokens"][row].tolist()
            completed.append(
                DecodedSequence(
                    tokens=tokens,
                    log_probs=beam.history["log_probs"][row].tolist(),
                    score=_score(total, len(tokens), beam.history, row, options.ranking, source_length),
                    finished=False,
                    attention=None if attention is None else attention[row].clone(),
                )
            )


def _drop_finished(beam: _Beam, finished: list[int], state: Tree, parents: Tensor) -> _Beam:
    """Return the beam without the sentences at these positions, with the state of each row's parent.

    The state is the largest tensor tree: dropping and reordering rows copy it only once, and not at all if each
    row is its own parent, as in greedy search.
    """
    if not finished:
        beam.state = state if beam.rows_per_sentence == 1 else select_rows(state, parents)
        return beam
    device, dropped = beam.totals.device, set(finished)
    left = [position for position in range(len(beam.sentences)) if position not in dropped]
    sentences = torch.tensor(left, dtype=torch.long, device=device)
    offsets = torch.arange(beam.rows_per_sentence, device=device)
    rows = (sentences.unsqueeze(1) * beam.rows_per_sentence + offsets).flatten()
    return _Beam(
        sentences=[beam.sentences[position] for position in left],
        memory=select_rows(beam.memory, sentences),
        state=select_rows(state, parents[rows]),
        totals=beam.totals[sentences],
        last=beam.last[rows],
        history=select_rows(beam.history, rows),
    )
