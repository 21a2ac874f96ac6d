"""Batched sampling over `start` and `step`; a sample depends only on its seed and sentence.

Each (sentence, sample) has its own stream of random numbers, from a counter-based generator keyed by a hash of
(seed, key of the sentence, number of the sample). The number at position t is a uniform u, and the token is the
inverse of the cumulative distribution, in the order of the token ids, at u. So a sample does not depend on the
other rows, on when they end, or on the device. And because u is compared with a sum, and tokens are not
compared with each other, rounding errors of the model change a token only if u is that close to a boundary.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqloom.decode.config import SamplingConfig
from seqloom.decode.observer import report_step
from seqloom.decode.options import DecodedSequence
from seqloom.decode.rules import Rules
from seqloom.errors import SeqloomError
from seqloom.types import BOS, EOS, PAD, Batch, StepModel, Tree, select_rows

_FIRST_WIDTH = 128  # number of tokens sorted in the first attempt, see _threshold


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
    """Return the samples of each sentence, in the order of their numbers.

    The rules, which must not contain prefixes, exclude tokens before temperature and filters; the remaining
    distribution is renormalised. A sample that reaches a point where no token is possible is left out.

    The tokens of a sentence's prefix are forced, not drawn; the output begins with them, and they count towards
    its maximum length, at which it is cut (`finished` is False). The log-probabilities of all tokens, including
    the prefix, are those of the model before temperature and filters; the score is their sum.

    By default, the key of a sentence is a hash of its source and prefix: its samples do not depend on its
    position, and equal sentences get equal samples. Other keys, such as line numbers, distinguish them.
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
        table.write(rows.table_rows, position, last, step.log_probs)
        is_open = rows.open & (last != EOS) & (table.limits[rows.table_rows] > position + 1)
        is_open &= table.possible[rows.table_rows]
        rows = _drop_finished_rows(rows._replace(state=step.state, last=last, open=is_open))
        if not rows.sentences:
            break
        report_step(partial(table.first_tokens, rows.table_rows, position))
    found, count = table.found(), options.samples
    groups = (found[first : first + count] for first in range(0, len(found), count))
    return [[one for one in group if one is not None] for group in groups]


# Filters. Each takes log weights (R, V) and returns them with excluded tokens at -inf; the distribution is the
# weights divided by their sum. Tokens that tie at the threshold are all kept.


def tempered(log_weights: Tensor, temperature: float) -> Tensor:
    """Return w^(1/temperature), scaled so that the largest is 1; at 0, the limit: only the largest."""
    if temperature == 0:
        return keep_top_k(log_weights, 1)
    return (log_weights - log_weights.amax(dim=1, keepdim=True)) / temperature


def keep_top_k(log_weights: Tensor, k: int) -> Tensor:
    """Keep the k largest weights."""
    smallest = log_weights.topk(min(k, log_weights.shape[1]), dim=1).values[:, -1:]
    return log_weights.masked_fill(log_weights < smallest, -torch.inf)


def keep_top_p(log_weights: Tensor, mass: float) -> Tensor:
    """Keep the nucleus: the fewest largest weights with this mass (Holtzman et al. 2020, arXiv:1904.09751)."""
    return _keep_mass(log_weights, log_weights, mass)


def keep_min_p(log_weights: Tensor, share: float) -> Tensor:
    """Keep weights of at least this share of the largest one (Nguyen et al. 2024, arXiv:2407.01082)."""
    smallest = log_weights.amax(dim=1, keepdim=True) + (math.log(share) if share else -math.inf)
    return log_weights.masked_fill(log_weights < smallest, -torch.inf)


def keep_typical(log_weights: Tensor, mass: float) -> Tensor:
    """Keep the smallest set of tokens with this mass, those whose -log p is nearest to the entropy first.

    Meister et al. 2022, arXiv:2202.00666.
    """
    log_probs = log_weights.log_softmax(dim=1)
    entropy = torch.special.entr(log_probs.exp()).sum(dim=1, keepdim=True)
    return _keep_mass(log_weights, -(log_probs + entropy).abs(), mass)


def _keep_mass(log_weights: Tensor, rank: Tensor, mass: float) -> Tensor:
    """Keep the smallest set of highest-ranked tokens whose probabilities add up to the mass."""
    threshold = _threshold(log_weights.softmax(dim=1), rank, mass, _FIRST_WIDTH)
    return log_weights.masked_fill(rank < threshold, -torch.inf)


def _threshold(probs: Tensor, rank: Tensor, mass: float, width: int) -> Tensor:
    """Return the lowest rank needed to reach the mass, (R, 1); a row is sorted completely only if necessary."""
    sort_all = width >= rank.shape[1]
    values, tokens = rank.sort(dim=1, descending=True) if sort_all else rank.topk(width, dim=1)
    sums = probs.gather(1, tokens).cumsum(dim=1)
    needed = (sums < mass).sum(dim=1, keepdim=True).clamp_max(values.shape[1] - 1)
    threshold = values.gather(1, needed)
    short = (sums[:, -1] < mass).nonzero().squeeze(1)
    if len(short) and not sort_all:
        threshold[short] = _threshold(probs[short], rank[short], mass, rank.shape[1])
    return threshold


def truncated(log_probs: Tensor, options: SamplingConfig) -> Tensor:
    """Return log weights to draw from, after temperature, top-k, top-p, min-p and typical, in this order."""
    weights = log_probs.double()  # a copy; float64, so that sums agree closely on all devices
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


class _SampleTable(NamedTuple):
    """All samples, (B N, T): sample j of sentence b is in row b N + j. PAD marks tokens not chosen yet."""

    tokens: Tensor
    log_probs: Tensor
    uniforms: Tensor
    limits: Tensor  # (B N,) maximum lengths
    possible: Tensor  # (B N,) False: no token was possible at some position

    def write(self, table_rows: Tensor, position: int, tokens: Tensor, log_probs: Tensor) -> None:
        self.tokens[table_rows, position] = tokens
        self.log_probs[table_rows, position] = log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1).double()

    def first_tokens(self, table_rows: Tensor, position: int) -> list[int]:
        """Return the tokens of the first of these rows, up to this position."""
        tokens: list[int] = self.tokens[table_rows[0], : position + 1].tolist()
        return tokens

    def found(self) -> list[DecodedSequence | None]:
        """Return the samples up to their ends, or None for each that was not possible."""
        columns = (part.tolist() for part in (self.tokens, self.log_probs, self.limits, self.possible))
        return [
            _found(tokens[:n], log_probs[:n]) if possible else None
            for tokens, log_probs, n, possible in zip(*columns, strict=True)
        ]


def _found(tokens: list[int], log_probs: list[float]) -> DecodedSequence | None:
    """Return the sample up to its end, or None if the probability of its prefix is 0."""
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
    """Samples being drawn: `sentences` x K rows, those of a sentence adjacent."""

    sentences: int
    memory: Tree
    state: Tree
    last: Tensor  # (R,)
    table_rows: Tensor  # (R,) rows in the table
    open: Tensor  # (R,) False: done, and kept only because another sentence has more open rows


def _check(prefixes: list[list[int]], max_lengths: Sequence[int]) -> None:
    for number, (prefix, limit) in enumerate(zip(prefixes, max_lengths, strict=True), 1):
        if len(prefix) >= limit:
            raise SeqloomError(
                f"The forced prefix of sentence {number} has {len(prefix)} tokens, but its maximum length is "
                f"{limit}, so no token can be drawn.",
                "shorten the prefix or raise the maximum length",
            )
        if forbidden := {PAD, BOS, EOS} & set(prefix):
            raise SeqloomError(
                f"The forced prefix of sentence {number} contains the id {min(forbidden)}, which is reserved "
                "for padding, the start or the end.",
                "encode the prefix with the tokenizer, without special symbols",
            )


def keys_of(batch: Batch, prefixes: Sequence[Sequence[int]]) -> list[int]:
    """Return a key for each sentence, a hash of its source and prefix."""
    sources = zip(batch.source.tolist(), batch.source_lengths.tolist(), strict=True)
    return [
        _hash(source[:length], list(prefix)) for (source, length), prefix in zip(sources, prefixes, strict=True)
    ]


def _hash(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=16).digest(), "little")


def uniforms(seed: int, key: int, number: int, count: int) -> Tensor:
    """Return the first `count` random numbers in [0, 1) of a sample, in float64: Philox (Salmon et al. 2011).

    They are multiples of 2^-53, so u times a sum always rounds to less than the sum, and u selects a token.
    """
    raw = np.random.Philox(key=_hash(seed, key, number)).random_raw(count)  # a stream that NumPy never changes
    return torch.from_numpy((raw >> np.uint64(11)) * 2.0**-53)


def _table(
    batch: Batch,
    options: SamplingConfig,
    max_lengths: Sequence[int],
    prefixes: list[list[int]],
    keys: Sequence[int],
) -> _SampleTable:
    longest, samples, device = max(max_lengths), options.samples, batch.source.device
    tokens = torch.tensor([prefix + [PAD] * (longest - len(prefix)) for prefix in prefixes])
    drawn = [uniforms(options.seed, key, number, longest) for key in keys for number in range(samples)]
    return _SampleTable(
        tokens=tokens.repeat_interleave(samples, dim=0).to(device),
        log_probs=torch.zeros(len(drawn), longest, dtype=torch.float64, device=device),
        uniforms=torch.stack(drawn).to(device),
        limits=torch.tensor(max_lengths, device=device).repeat_interleave(samples),
        possible=torch.ones(len(drawn), dtype=torch.bool, device=device),
    )


def _begin(model: StepModel, batch: Batch, table: _SampleTable, samples: int, *, shared: int) -> _Rows:
    """Return N rows per sentence, after reading the first `shared` prefix tokens once for all samples."""
    memory, state = model.start(batch)
    table_rows = torch.arange(len(table.tokens), device=batch.source.device)
    first = table_rows[::samples]
    last = torch.full_like(first, BOS)
    for position in range(shared):
        step = model.step(memory, state, last)
        state, last = step.state, table.tokens[first, position]
        table.write(first, position, last, step.log_probs)
    table.log_probs[:, :shared] = table.log_probs[first, :shared].repeat_interleave(samples, dim=0)
    sentence = table_rows // samples
    opened = torch.ones_like(table_rows, dtype=torch.bool)
    return _Rows(len(first), memory, select_rows(state, sentence), last[sentence], table_rows, opened)


def _choose(
    log_probs: Tensor, rows: _Rows, table: _SampleTable, position: int, options: SamplingConfig, rules: Rules
) -> Tensor:
    """Return the next token of each row, (R,): from its prefix, or drawn."""
    given = table.tokens[rows.table_rows, position]
    weights = log_probs.double()
    rules.apply(weights, table.tokens[rows.table_rows, :position], _no_prefixes)
    sums = truncated(weights, options).exp().cumsum(dim=1)
    total = sums[:, -1:]
    table.possible[rows.table_rows] &= (given != PAD) | ~rows.open | (total.squeeze(1) > 0)  # False for NaN
    thresholds = table.uniforms[rows.table_rows, position].unsqueeze(1) * total
    drawn = torch.searchsorted(sums, thresholds, right=True).squeeze(1)  # the first whose sum exceeds u
    return given.where(given != PAD, drawn.clamp_max(log_probs.shape[1] - 1))


def _no_prefixes() -> Tensor:
    raise AssertionError("the rules of samples must not contain prefixes")


def _drop_finished_rows(rows: _Rows) -> _Rows:
    """Drop finished rows, but keep the same number per sentence: the largest number of open rows."""
    is_open = rows.open.view(rows.sentences, -1)
    left = is_open.sum(dim=1)  # (B,)
    most, before = int(left.max()), is_open.shape[1]
    if most == before and bool(left.all()):
        return rows
    sentences = left.nonzero().squeeze(1)
    order = is_open[sentences].to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
    kept = (sentences.unsqueeze(1) * before + order).flatten()
    return _Rows(
        len(sentences),
        select_rows(rows.memory, sentences),
        *select_rows((rows.state, rows.last, rows.table_rows, rows.open), kept),
    )
