"""Samples from a model over `start` and `step`, batched; a sample depends on its seed and sentence alone.

Every (sentence, sample) has a stream of random numbers of its own, from a counter-based generator keyed by a
hash of (seed, the sentence's key, number of the sample). Its number at position t is a uniform u, and the
token is the inverse of the cumulative distribution, in the order of the token ids, at u. So nothing that is
drawn depends on the other rows, on when they end, or on the device; and because u is compared with a sum, and
not the tokens with each other, rounding of the model's last bits moves a token only if u is as near to a
border as the rounding is large.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqloom.decode.config import SamplingConfig
from seqloom.decode.options import DecodedSequence
from seqloom.decode.rules import Rules
from seqloom.errors import SeqloomError
from seqloom.types import BOS, EOS, PAD, Batch, StepModel, Tree, select_rows

_FIRST_WIDTH = 128  # tokens of a row that are sorted at first, see _border


@torch.inference_mode()
def sample(
    model: StepModel,
    batch: Batch,
    *,
    options: SamplingConfig,
    max_lengths: Sequence[int],
    prefixes: Sequence[Sequence[int]] | None = None,
    keys: Sequence[int] | None = None,
    rules: Rules | None = None,
) -> list[list[DecodedSequence]]:
    """Return for every sentence its samples, in the order of their numbers.

    The rules, which hold no prefixes, take tokens out before temperature and filters; what is left is
    renormalised. A sample that reaches a point where no token is possible is left out.

    The tokens of a sentence's prefix are given, not drawn; an answer begins with them, and they count for its
    maximum length, at which it is cut (`finished` is False). The log-probabilities are the model's own, before
    temperature and filters, of every token, the prefix's too; the score is their sum.

    A sentence's key is by default a hash of its source and prefix: it gets the same samples wherever it
    stands, and so do two equal sentences. Other keys, such as line numbers, tell them apart.
    """
    given = [list(prefix) for prefix in prefixes] if prefixes is not None else [[] for _ in max_lengths]
    _check(given, max_lengths)
    if not given:
        return []
    table = _table(batch, options, max_lengths, given, keys or keys_of(batch, given))
    shared = min(map(len, given))
    rows = _begin(model, batch, table, options.samples, shared=shared)
    for position in range(shared, max(max_lengths)):
        step = model.step(rows.memory, rows.state, rows.last)
        last = _choose(step.log_probs, rows, table, position, options, rules or Rules())
        table.write(rows.answers, position, last, step.log_probs)
        going = rows.open & (last != EOS) & (table.limits[rows.answers] > position + 1)
        going &= table.possible[rows.answers]
        rows = _drop(rows._replace(state=step.state, last=last, open=going))
        if not rows.sentences:
            break
    found, count = table.found(), options.samples
    groups = (found[first : first + count] for first in range(0, len(found), count))
    return [[one for one in group if one is not None] for group in groups]


# Filters. Each takes the logarithms of weights, (R, V), and returns them with what it leaves out at -inf; the
# distribution is the weights divided by their sum. Where tokens tie at the border, all of them stay.


def tempered(log_weights: Tensor, temperature: float) -> Tensor:
    """w^(1/temperature), the largest 1; at 0 the limit: the largest alone."""
    if temperature == 0:
        return keep_top_k(log_weights, 1)
    return (log_weights - log_weights.amax(dim=1, keepdim=True)) / temperature


def keep_top_k(log_weights: Tensor, k: int) -> Tensor:
    """The k largest."""
    smallest = log_weights.topk(min(k, log_weights.shape[1]), dim=1).values[:, -1:]
    return log_weights.masked_fill(log_weights < smallest, -torch.inf)


def keep_top_p(log_weights: Tensor, mass: float) -> Tensor:
    """The nucleus: the fewest largest that add up to the mass (Holtzman et al. 2020, arXiv:1904.09751)."""
    return _keep_mass(log_weights, log_weights, mass)


def keep_min_p(log_weights: Tensor, share: float) -> Tensor:
    """Those of at least this share of the largest (Nguyen et al. 2024, arXiv:2407.01082)."""
    smallest = log_weights.amax(dim=1, keepdim=True) + (math.log(share) if share else -math.inf)
    return log_weights.masked_fill(log_weights < smallest, -torch.inf)


def keep_typical(log_weights: Tensor, mass: float) -> Tensor:
    """The fewest that add up to the mass, those whose -log p is nearest to the entropy first.

    Meister et al. 2022, arXiv:2202.00666.
    """
    log_probs = log_weights.log_softmax(dim=1)
    entropy = torch.special.entr(log_probs.exp()).sum(dim=1, keepdim=True)
    return _keep_mass(log_weights, -(log_probs + entropy).abs(), mass)


def _keep_mass(log_weights: Tensor, rank: Tensor, mass: float) -> Tensor:
    """The fewest of the highest rank whose probabilities add up to the mass."""
    border = _border(log_weights.softmax(dim=1), rank, mass, _FIRST_WIDTH)
    return log_weights.masked_fill(rank < border, -torch.inf)


def _border(probs: Tensor, rank: Tensor, mass: float, width: int) -> Tensor:
    """The lowest rank that is needed to reach the mass, (R, 1); a row is sorted whole only if it has to be."""
    whole = width >= rank.shape[1]
    values, tokens = rank.sort(dim=1, descending=True) if whole else rank.topk(width, dim=1)
    sums = probs.gather(1, tokens).cumsum(dim=1)
    needed = (sums < mass).sum(dim=1, keepdim=True).clamp_max(values.shape[1] - 1)
    border = values.gather(1, needed)
    short = (sums[:, -1] < mass).nonzero().squeeze(1)
    if len(short) and not whole:
        border[short] = _border(probs[short], rank[short], mass, rank.shape[1])
    return border


def truncated(log_probs: Tensor, options: SamplingConfig) -> Tensor:
    """Return the log weights to draw from: temperature, top-k, top-p, min-p, typical, each on what is left."""
    weights = log_probs.double()  # a copy whose sums agree on every device to far below any border
    weights[:, (PAD, BOS)] = -torch.inf  # never part of an output
    if options.temperature != 1:
        weights = tempered(weights, options.temperature)
    if options.top_k:
        weights = keep_top_k(weights, options.top_k)
    if options.top_p < 1:
        weights = keep_top_p(weights, options.top_p)
    if options.min_p:
        weights = keep_min_p(weights, options.min_p)
    if options.typical < 1:
        weights = keep_typical(weights, options.typical)
    return weights


class _Table(NamedTuple):
    """All answers, (B N, T): sample j of sentence b stands in row b N + j. PAD is what is not chosen yet."""

    tokens: Tensor
    log_probs: Tensor
    uniforms: Tensor
    limits: Tensor  # (B N,) their maximum lengths
    possible: Tensor  # (B N,) False: at some point no token had a probability

    def write(self, answers: Tensor, position: int, tokens: Tensor, log_probs: Tensor) -> None:
        self.tokens[answers, position] = tokens
        self.log_probs[answers, position] = log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1).double()

    def found(self) -> list[DecodedSequence | None]:
        """Return the samples, each up to its end, or None where a sample was not possible."""
        columns = (part.tolist() for part in (self.tokens, self.log_probs, self.limits, self.possible))
        return [
            _found(tokens[:n], log_probs[:n]) if possible else None
            for tokens, log_probs, n, possible in zip(*columns, strict=True)
        ]


def _found(tokens: list[int], log_probs: list[float]) -> DecodedSequence | None:
    """Return the sample up to its end, or None if its prefix has no probability."""
    finished = EOS in tokens
    length = tokens.index(EOS) if finished else len(tokens)
    log_probs = log_probs[: length + 1]
    total = sum(log_probs)
    return (
        DecodedSequence(tokens[:length], log_probs, total, finished, attention=None)
        if math.isfinite(total)
        else None
    )


class _Rows(NamedTuple):
    """The samples being drawn: `sentences` x K rows, those of a sentence side by side."""

    sentences: int
    memory: Tree
    state: Tree
    last: Tensor  # (R,)
    answers: Tensor  # (R,) its row in the table
    open: Tensor  # (R,) False: done, and here only because another sentence has more open rows


def _check(prefixes: list[list[int]], max_lengths: Sequence[int]) -> None:
    for number, (prefix, limit) in enumerate(zip(prefixes, max_lengths, strict=True), 1):
        if len(prefix) >= limit:
            raise SeqloomError(
                f"The forced prefix of sentence {number} has {len(prefix)} tokens, and its maximum length is "
                f"{limit}, so nothing is left to draw.",
                "shorten the prefix or raise the maximum length",
            )
        if forbidden := {PAD, BOS, EOS} & set(prefix):
            raise SeqloomError(
                f"The forced prefix of sentence {number} holds the symbol {min(forbidden)}, which stands for "
                "padding, the start or the end.",
                "give the ids of a tokenizer without these symbols",
            )


def keys_of(batch: Batch, prefixes: Sequence[Sequence[int]]) -> list[int]:
    """A number for every sentence that only its own source and prefix make."""
    sources = zip(batch.source.tolist(), batch.source_lengths.tolist(), strict=True)
    return [
        _hash(source[:length], list(prefix)) for (source, length), prefix in zip(sources, prefixes, strict=True)
    ]


def _hash(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=16).digest(), "little")


def uniforms(seed: int, key: int, number: int, count: int) -> Tensor:
    """The first random numbers in [0, 1) of a sample, in float64: Philox (Salmon et al. 2011).

    They are multiples of 2^-53: u times a sum then rounds to less than the sum, so u always meets a token.
    """
    raw = np.random.Philox(key=_hash(seed, key, number)).random_raw(count)  # a stream that NumPy never changes
    return torch.from_numpy((raw >> np.uint64(11)) * 2.0**-53)


def _table(
    batch: Batch,
    options: SamplingConfig,
    max_lengths: Sequence[int],
    prefixes: list[list[int]],
    keys: Sequence[int],
) -> _Table:
    longest, samples, device = max(max_lengths), options.samples, batch.source.device
    tokens = torch.tensor([prefix + [PAD] * (longest - len(prefix)) for prefix in prefixes])
    drawn = [uniforms(options.seed, key, number, longest) for key in keys for number in range(samples)]
    return _Table(
        tokens=tokens.repeat_interleave(samples, dim=0).to(device),
        log_probs=torch.zeros(len(drawn), longest, dtype=torch.float64, device=device),
        uniforms=torch.stack(drawn).to(device),
        limits=torch.tensor(max_lengths, device=device).repeat_interleave(samples),
        possible=torch.ones(len(drawn), dtype=torch.bool, device=device),
    )


def _begin(model: StepModel, batch: Batch, table: _Table, samples: int, *, shared: int) -> _Rows:
    """N rows for every sentence, after the prefix tokens that all sentences have, fed once for all samples."""
    memory, state = model.start(batch)
    answers = torch.arange(len(table.tokens), device=batch.source.device)
    first = answers[::samples]
    last = torch.full_like(first, BOS)
    for position in range(shared):
        step = model.step(memory, state, last)
        state, last = step.state, table.tokens[first, position]
        table.write(first, position, last, step.log_probs)
    table.log_probs[:, :shared] = table.log_probs[first, :shared].repeat_interleave(samples, dim=0)
    sentence = answers // samples
    opened = torch.ones_like(answers, dtype=torch.bool)
    return _Rows(len(first), memory, select_rows(state, sentence), last[sentence], answers, opened)


def _choose(
    log_probs: Tensor, rows: _Rows, table: _Table, position: int, options: SamplingConfig, rules: Rules
) -> Tensor:
    """Return the next token of every row, (R,): its prefix's, or one that is drawn."""
    given = table.tokens[rows.answers, position]
    weights = log_probs.double()
    rules.apply(weights, table.tokens[rows.answers, :position], _no_prefixes)
    sums = truncated(weights, options).exp().cumsum(dim=1)
    total = sums[:, -1:]
    table.possible[rows.answers] &= (given != PAD) | ~rows.open | (total.squeeze(1) > 0)  # nor is NaN
    wanted = table.uniforms[rows.answers, position].unsqueeze(1) * total
    drawn = torch.searchsorted(sums, wanted, right=True).squeeze(1)  # the first whose sum exceeds u
    return given.where(given != PAD, drawn.clamp_max(log_probs.shape[1] - 1))


def _no_prefixes() -> Tensor:
    raise AssertionError("the prefixes of samples are in their table, not in the rules")


def _drop(rows: _Rows) -> _Rows:
    """The rows without those that are done, but as many for every sentence as the one with the most needs."""
    going = rows.open.view(rows.sentences, -1)
    left = going.sum(dim=1)  # (B,)
    most, before = int(left.max()), going.shape[1]
    if most == before and bool(left.all()):
        return rows
    sentences = left.nonzero().squeeze(1)
    order = going[sentences].to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
    kept = (sentences.unsqueeze(1) * before + order).flatten()
    return _Rows(
        len(sentences),
        select_rows(rows.memory, sentences),
        *select_rows((rows.state, rows.last, rows.answers, rows.open), kept),
    )
