"""Batches of similar length within a token budget, in an order that depends only on (seed, epoch)."""

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

_BLOCK = 1024  # consecutive examples read together; the unit of shuffling over the corpus
_BAND = 3  # batches per band of similar target lengths, see _by_length


class Position(NamedTuple):
    """Position in the data: an epoch, and the number of its batches (in a stream, pairs) that are done."""

    epoch: int
    batch: int


Collate: TypeAlias = Callable[[Tokens, Indices, Position], T]


class Batches(Protocol):
    """Source of training batches."""

    @property
    def per_epoch(self) -> int:
        """Value of `Position.batch` at the end of an epoch."""
        ...

    def collated(self, epoch: int, skip: int, collate: Collate[T]) -> Iterator[tuple[Position, T]]:
        """Yield batches without end from a position, each with the position after it."""
        ...


class BatchStream:
    """Batches of a token store, as index arrays; rows x longest side (with EOS) is at most `batch_tokens`.

    Only the lengths of one pool are in memory, whatever the size of the corpus. With a mixture, whose corpora
    are stored one after another, the pools are its windows.
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
                "No examples are left to train on.", "see the data report for the dropped lines and the reasons"
            )
        self._store = store
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._pool = pool
        self._shuffle = shuffle
        self._mixture = mixture

    @property
    def per_epoch(self) -> int:
        """Number of batches in the first epoch; other epochs have about as many."""
        return sum(1 for _ in self.epoch(0))

    def epoch(self, epoch: int) -> Iterator[Indices]:
        """Yield all batches of an epoch: every example once, or as weighted by the mixture."""
        random = np.random.default_rng([self._seed, epoch])
        pools = self._mixed(self._mixture, epoch) if self._mixture else self._pools(random)
        for pool in pools:
            yield from batches_of(self._store, pool, self._batch_tokens, random if self._shuffle else None)
            self._store.release_pages()

    def from_position(self, epoch: int, skip: int) -> Iterator[tuple[Position, Indices]]:
        """Yield batches without end after the first `skip` of an epoch, each with the position after it."""
        for current in count(epoch):
            for done, batch in islice(enumerate(self.epoch(current), 1), skip, None):
                yield Position(current, done), batch
            skip = 0

    def collated(self, epoch: int, skip: int, collate: Collate[T]) -> Iterator[tuple[Position, T]]:
        """Yield the same batches, collated."""
        for position, indices in self.from_position(epoch, skip):
            yield position, collate(self._store, indices, position)

    def _pools(self, random: np.random.Generator) -> Iterator[list[range]]:
        """Yield the blocks of the entire store, one pool at a time."""
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
        """Yield the blocks of each window of a mixture."""
        offsets = list(accumulate(mixture.sizes, initial=0))  # start of each corpus in the store
        for number in range(mixture.windows):
            yield [
                range(offsets[corpus] + block.start, offsets[corpus] + block.stop)
                for corpus, places in enumerate(mixture.window(epoch, number))
                for pass_number, part in passes(places, mixture.sizes[corpus])
                for block in self._blocks(mixture.sizes[corpus], part, [self._seed, corpus, pass_number])
            ]

    def _blocks(self, size: int, part: range, seed: Sequence[int]) -> Iterator[range]:
        """Yield the blocks of a part of one pass over a corpus; each pass shuffles its blocks differently."""
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
    """Return the batches of these pairs in random order, or by length without a generator."""
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
    """Return the order by bands of target length, and within a band by source length, up and down in turn.

    Neighbours are therefore similar on both sides, even where two bands meet. A band is as narrow as possible
    while it still fills a few batches: rare lengths share a band, common lengths have one each.
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
    """Return the starts of new batches such that rows x longest row stays within the budget."""
    cuts, first, widest = [], 0, 0
    for i, width in enumerate(widths.tolist()):
        widest = max(widest, width)
        if i > first and (i + 1 - first) * widest > batch_tokens:
            cuts.append(i)
            first, widest = i, width
    return cuts


def collate(tokens: Tokens, indices: Indices) -> Batch:
    """Return the batch of these pairs."""
    heads = gather(tokens, "heads", indices) if "heads" in tokens.ids else None
    return batch_of(gather(tokens, "source", indices), gather(tokens, "target", indices), indices, heads)


def collate_ids(
    sources: Sequence[Row],
    targets: Sequence[Row] | None,
    index: Sequence[int],
    heads: Sequence[Row] | None = None,
) -> Batch:
    """Return the batch of these ids, given without BOS and EOS; `heads` are those of the source tokens.

    Sources may also be frames, (S, F) each.
    """
    target, trees = (None if rows is None else _flatten(rows) for rows in (targets, heads))
    return batch_of(_flatten(sources), target, np.asarray(index, np.int64), trees)


class Rows(NamedTuple):
    """Concatenated sequences, and the length of each."""

    ids: NDArray[Any]  # (N,), or frames (N, F)
    lengths: Indices


def gather(tokens: Tokens, side: str, indices: Indices) -> Rows:
    """Return one side of these pairs."""
    offsets = tokens.offsets[side]
    starts = offsets[indices]
    lengths = offsets[indices + 1] - starts
    row_starts = np.cumsum(lengths) - lengths  # in the gathered ids
    positions = np.repeat(starts - row_starts, lengths) + np.arange(lengths.sum())
    return Rows(tokens.ids[side][positions], lengths)


def _flatten(rows: Sequence[Row]) -> Rows:
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    if len(rows) and isinstance(rows[0], np.ndarray) and rows[0].ndim == 2:
        return Rows(np.concatenate(rows), lengths)
    return Rows(np.fromiter(chain.from_iterable(rows), np.int64), lengths)


def batch_of(source: Rows, target: Rows | None, index: Indices, heads: Rows | None = None) -> Batch:
    """Return the batch of these rows, adding BOS and EOS; a source of frames gets neither."""
    source_ids, source_lengths = with_eos(source) if source.ids.ndim == 1 else _framed(source)
    source_heads = None if heads is None else _with_roots(heads)
    if target is None:
        return Batch(source_ids, source_lengths, torch.from_numpy(index), source_heads=source_heads)
    target_in, (target_out, target_lengths) = (
        (_with_bos(target), with_eos(target)) if target.ids.ndim == 1 else _vectors(target)
    )
    return Batch(
        source_ids,
        source_lengths,
        torch.from_numpy(index),
        target_in=target_in,
        target_out=target_out,
        target_lengths=target_lengths,
        target_tokens=int(target.lengths.sum()) + len(index),
        source_heads=source_heads,
    )


def with_eos(rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    """Return padded ids (B, S) with EOS after each row, and lengths (B,) that include it."""
    padded, real = _padded(rows)
    padded[real] = rows.ids
    padded[np.arange(len(padded)), rows.lengths] = EOS
    return torch.from_numpy(padded), torch.from_numpy(rows.lengths + 1)


def _framed(rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    """Return frames (B, S, F), padded with zeros, and lengths (B,)."""
    width = int(rows.lengths.max(initial=0))
    padded = np.zeros((len(rows.lengths), width, rows.ids.shape[1]), np.float32)
    padded[np.arange(width) < rows.lengths[:, None]] = rows.ids
    return torch.from_numpy(padded), torch.from_numpy(rows.lengths)


def _vectors(rows: Rows) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Return vectors (B, T, F) after a row of zeros and before one, and lengths (B,) that include it."""
    frames, lengths = _framed(rows)
    edge = frames.new_zeros(len(frames), 1, frames.shape[2])
    return torch.cat((edge, frames), dim=1), (torch.cat((frames, edge), dim=1), lengths + 1)


def _with_roots(heads: Rows) -> torch.Tensor:
    """Return heads (B, S); EOS and padding are roots, whose head 0 equals PAD."""
    padded, real = _padded(heads)
    padded[real] = heads.ids
    return torch.from_numpy(padded)


def _with_bos(rows: Rows) -> torch.Tensor:
    """Return padded ids (B, T) with BOS before each row."""
    padded, real = _padded(rows)
    padded[:, 1:][real[:, :-1]] = rows.ids
    padded[:, 0] = BOS
    return torch.from_numpy(padded)


def _padded(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return an array of PAD with one more column than the longest row, and the mask of real ids."""
    width = int(rows.lengths.max(initial=0)) + 1
    real = np.arange(width) < rows.lengths[:, None]
    return np.full((len(rows.lengths), width), PAD, np.int64), real


def padding(batch: Batch) -> float:
    """Return the fraction of real tokens in a batch, over both sides; 1 means no padding."""
    real = int(batch.source_lengths.sum()) + batch.target_tokens
    sides = (batch.source,) if batch.target_out is None else (batch.source, batch.target_out)
    return real / sum(side.shape[0] * side.shape[1] for side in sides)


def prefetch(batches: Iterator[T], depth: int = 2) -> Iterator[T]:
    """Yield the same items; a thread prepares the next `depth` items while the current one is in use."""

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
