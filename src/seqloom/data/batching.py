"""Batches of like lengths within a token budget, in an order that depends on (seed, epoch) alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, chain, count, islice
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.mixture import ORDER, Mixture, passes
from seqloom.data.store import Tokens, TokenStore
from seqloom.errors import SeqloomError
from seqloom.types import BOS, EOS, PAD, Batch

T = TypeVar("T")
Indices = NDArray[np.int64]
Row: TypeAlias = Sequence[int] | NDArray[np.float32]

_BLOCK = 1024  # consecutive examples that are read together: the unit of shuffling over the corpus
_BAND = 3  # batches in a band of like target lengths, see _by_length


class Position(NamedTuple):
    """A place in the data: so many batches of that epoch are done; in a stream, so many pairs."""

    epoch: int
    batch: int


Collate: TypeAlias = Callable[[Tokens, Indices, Position], T]


class Batches(Protocol):
    """What training is fed with."""

    @property
    def per_epoch(self) -> int:
        """The place of an epoch's end."""
        ...

    def collated(self, epoch: int, skip: int, collate: Collate[T]) -> Iterator[tuple[Position, T]]:
        """Endless batches from a place on, each with the place after it."""
        ...


class BatchStream:
    """Index arrays of batches; rows x the longest side (with its EOS) never exceeds `batch_tokens`.

    Memory holds the lengths of one pool, whatever the size of the corpus. With a mixture, whose corpora stand
    one behind the other in the store, its windows are the pools.
    """

    def __init__(
        self,
        store: TokenStore,
        *,
        batch_tokens: int,
        seed: int,
        pool: int = 65_536,
        shuffle: bool = True,
        mixture: Mixture | None = None,
    ) -> None:
        if len(store) == 0:
            raise SeqloomError(
                "There is no example to make batches of.", "see the data report for what was dropped, and why"
            )
        self._store = store
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._pool = pool
        self._shuffle = shuffle
        self._mixture = mixture

    @property
    def per_epoch(self) -> int:
        """How many batches the first epoch has; the others about as many."""
        return sum(1 for _ in self.epoch(0))

    def epoch(self, epoch: int) -> Iterator[Indices]:
        """All batches of an epoch: every example once, or as the mixture says."""
        random = np.random.default_rng([self._seed, epoch])
        pools = self._mixed(self._mixture, epoch) if self._mixture else self._pools(random)
        for pool in pools:
            yield from batches_of(self._store, pool, self._batch_tokens, random if self._shuffle else None)
            self._store.forget()

    def from_position(self, epoch: int, skip: int) -> Iterator[tuple[Position, Indices]]:
        """Endless batches after the first `skip` of that epoch, each with the position after it."""
        for current in count(epoch):
            for done, batch in islice(enumerate(self.epoch(current), 1), skip, None):
                yield Position(current, done), batch
            skip = 0

    def collated(self, epoch: int, skip: int, collate: Collate[T]) -> Iterator[tuple[Position, T]]:
        """The same with their ids."""
        for position, indices in self.from_position(epoch, skip):
            yield position, collate(self._store, indices, position)

    def _pools(self, random: np.random.Generator) -> Iterator[list[range]]:
        """Blocks of the whole store, some at a time."""
        starts = np.arange(0, len(self._store), _BLOCK)
        if self._shuffle:
            random.shuffle(starts)
        blocks = max(1, self._pool // _BLOCK)
        for first in range(0, len(starts), blocks):
            yield [
                range(start, min(start + _BLOCK, len(self._store)))
                for start in starts[first : first + blocks].tolist()
            ]

    def _mixed(self, mixture: Mixture, epoch: int) -> Iterator[list[range]]:
        """The blocks of every window of a mixture."""
        behind = list(accumulate(mixture.sizes, initial=0))  # where each corpus begins in the store
        for number in range(mixture.windows):
            yield [
                range(behind[corpus] + block.start, behind[corpus] + block.stop)
                for corpus, places in enumerate(mixture.window(epoch, number))
                for turn, part in passes(places, mixture.sizes[corpus])
                for block in self._blocks(mixture.sizes[corpus], part, [self._seed, corpus, turn])
            ]

    def _blocks(self, size: int, part: range, seed: Sequence[int]) -> Iterator[range]:
        """What a part of one pass over a corpus is made of; the pass has its blocks in an order of its own."""
        starts = np.arange(0, size, _BLOCK)
        np.random.default_rng([*seed, ORDER]).shuffle(starts)
        done = 0
        for start in starts.tolist():
            length = min(_BLOCK, size - start)
            first, last = max(part.start - done, 0), min(part.stop - done, length)
            if first < last:
                yield range(start + first, start + last)
            done += length


def batches_of(
    tokens: Tokens, blocks: Sequence[range], batch_tokens: int, random: np.random.Generator | None
) -> list[Indices]:
    """The batches of these pairs in random order; without a generator in the order of their lengths."""
    if not any(map(len, blocks)):
        return []
    index = np.concatenate([np.arange(block.start, block.stop) for block in blocks])
    lengths = [tokens.lengths(block.start, block.stop) for block in blocks]
    source, target = (np.concatenate(side) + 1 for side in zip(*lengths, strict=True))  # with EOS
    if tokens.features:
        source -= 1
    if random:
        order = random.permutation(len(index))
        index, source, target = index[order], source[order], target[order]
    order = _by_length(source, target, batch_tokens)
    cuts = _cut(np.maximum(source, target)[order], batch_tokens)
    batches = np.split(index[order], cuts)
    if random:
        random.shuffle(batches)
    return batches


def _by_length(source: Indices, target: Indices, batch_tokens: int) -> Indices:
    """The order by bands of target length; within a band by source length, up and down in turn.

    So neighbours are alike on both sides, even where one band meets the next. A band is as narrow as it can
    be while it fills a few batches: rare lengths share one, common ones have their own.
    """
    tokens = np.bincount(target, np.maximum(source, target))  # by target length
    bands, band, filled = np.empty(len(tokens), np.int64), 0, 0.0
    for length in range(len(tokens)):
        bands[length] = band
        filled += tokens[length]
        if filled >= _BAND * batch_tokens:
            band, filled = band + 1, 0.0
    order = bands[target]
    return np.lexsort((np.where(order % 2, -source, source), order))


def _cut(widths: Indices, batch_tokens: int) -> list[int]:
    """Where a new batch begins so that rows x widest stays within the budget."""
    cuts, first, widest = [], 0, 0
    for i, width in enumerate(widths.tolist()):
        widest = max(widest, width)
        if i > first and (i + 1 - first) * widest > batch_tokens:
            cuts.append(i)
            first, widest = i, width
    return cuts


def collate(tokens: Tokens, indices: Indices) -> Batch:
    """The batch of these pairs."""
    heads = gather(tokens, "heads", indices) if "heads" in tokens.ids else None
    return batch_of(gather(tokens, "source", indices), gather(tokens, "target", indices), indices, heads)


def collate_ids(
    sources: Sequence[Row],
    targets: Sequence[Row] | None,
    index: Sequence[int],
    heads: Sequence[Row] | None = None,
) -> Batch:
    """The batch of these ids, which come without BOS and EOS; heads are those of source tokens.

    Sources may be frames, (S, F) each, instead.
    """
    target, trees = (None if rows is None else _flatten(rows) for rows in (targets, heads))
    return batch_of(_flatten(sources), target, np.asarray(index, np.int64), trees)


class Rows(NamedTuple):
    """Sequences one after the other, and the length of each."""

    ids: NDArray[Any]  # (N,), or frames (N, F)
    lengths: Indices


def gather(tokens: Tokens, side: str, indices: Indices) -> Rows:
    """One side of these pairs."""
    offsets = tokens.offsets[side]
    starts = offsets[indices]
    lengths = offsets[indices + 1] - starts
    before = np.cumsum(lengths) - lengths  # where each row begins among the gathered ids
    places = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
    return Rows(tokens.ids[side][places], lengths)


def _flatten(rows: Sequence[Row]) -> Rows:
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    if len(rows) and isinstance(rows[0], np.ndarray) and rows[0].ndim == 2:
        return Rows(np.concatenate(rows), lengths)
    return Rows(np.fromiter(chain.from_iterable(rows), np.int64), lengths)


def batch_of(source: Rows, target: Rows | None, index: Indices, heads: Rows | None = None) -> Batch:
    """The batch of these rows, which come without BOS and EOS; a source of frames stays without."""
    source_ids, source_lengths = with_eos(source) if source.ids.ndim == 1 else _framed(source)
    source_heads = None if heads is None else _with_roots(heads)
    if target is None:
        return Batch(source_ids, source_lengths, torch.from_numpy(index), source_heads=source_heads)
    target_out, target_lengths = with_eos(target)
    return Batch(
        source_ids,
        source_lengths,
        torch.from_numpy(index),
        target_in=_with_bos(target),
        target_out=target_out,
        target_lengths=target_lengths,
        target_tokens=int(target.lengths.sum()) + len(index),
        source_heads=source_heads,
    )


def with_eos(rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, S) padded ids with EOS behind each row, and the (B,) lengths that count it."""
    padded, real = _padded(rows)
    padded[real] = rows.ids
    padded[np.arange(len(padded)), rows.lengths] = EOS
    return torch.from_numpy(padded), torch.from_numpy(rows.lengths + 1)


def _framed(rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, S, F) frames with zeros on padding, and the (B,) lengths."""
    width = int(rows.lengths.max(initial=0))
    padded = np.zeros((len(rows.lengths), width, rows.ids.shape[1]), np.float32)
    padded[np.arange(width) < rows.lengths[:, None]] = rows.ids
    return torch.from_numpy(padded), torch.from_numpy(rows.lengths)


def _with_roots(heads: Rows) -> torch.Tensor:
    """(B, S) heads; the end of a sentence and padding are roots of their own, for which PAD stands as well."""
    padded, real = _padded(heads)
    padded[real] = heads.ids
    return torch.from_numpy(padded)


def _with_bos(rows: Rows) -> torch.Tensor:
    """(B, T) padded ids with BOS before each row."""
    padded, real = _padded(rows)
    padded[:, 1:][real[:, :-1]] = rows.ids
    padded[:, 0] = BOS
    return torch.from_numpy(padded)


def _padded(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """An array of PAD with one more column than the longest row, and where the ids of the rows go."""
    width = int(rows.lengths.max(initial=0)) + 1
    real = np.arange(width) < rows.lengths[:, None]
    return np.full((len(rows.lengths), width), PAD, np.int64), real


def padding(batch: Batch) -> float:
    """The share of real tokens in a batch, both sides together; 1 is no padding at all."""
    real = int(batch.source_lengths.sum()) + batch.target_tokens
    sides = (batch.source,) if batch.target_out is None else (batch.source, batch.target_out)
    return real / sum(side.shape[0] * side.shape[1] for side in sides)


def prefetch(batches: Iterator[T], depth: int = 2) -> Iterator[T]:
    """The same items; a thread prepares the next `depth` while this one is in use."""

    def take() -> list[T]:
        return list(islice(batches, 1))  # empty at the end

    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch")
    try:
        pending = deque(worker.submit(take) for _ in range(depth))
        while item := pending.popleft().result():
            pending.append(worker.submit(take))
            yield from item
    finally:
        worker.shutdown(wait=True, cancel_futures=True)
