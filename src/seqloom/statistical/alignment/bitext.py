"""A parallel corpus laid out for EM: pairs grouped by shape, and every distinct word pair numbered once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Words = Sequence[int] | NDArray[np.integer]
Pair = tuple[Words, Words]
Ids = NDArray[np.int32]
Reals = NDArray[np.float64]
Numbers = NDArray[np.int64]
Kind = TypeVar("Kind", bound=np.generic)

CHUNK = 1 << 20  # links: the unit of work, whatever the number of threads


@dataclass(frozen=True, slots=True)
class PairBlock:
    """The B pairs of a chunk with S source and T target words."""

    pairs: Numbers  # (B,) indices in the corpus
    source: Ids  # (B, S)
    target: Ids  # (B, T)
    span: slice  # the block's part of the chunk's links
    swapped: bool = False  # the links are stored as (B, S, T)

    @property
    def shape(self) -> tuple[int, int]:
        """(T, S)."""
        return self.target.shape[1], self.source.shape[1]

    def view(self, links: NDArray[Kind]) -> NDArray[Kind]:
        """Return this block's part of an array with one value per link of the chunk, (B, T, S)."""
        rows, columns = self.shape[::-1] if self.swapped else self.shape
        part = links[self.span].reshape(len(self.pairs), rows, columns)
        return part.swapaxes(1, 2) if self.swapped else part


@dataclass(frozen=True, slots=True)
class Chunk:
    """A group of blocks, with the word pair of each of their links as an index into `words`."""

    blocks: tuple[PairBlock, ...]
    words: Ids  # sorted indices of the distinct word pairs of this chunk
    links: Ids  # (L,)
    target: Ids  # the target words of all blocks, concatenated

    @property
    def pairs(self) -> int:
        return sum(len(block.pairs) for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Bitext:
    """The corpus; a model explains the target by the source. `swapped` gives the other direction.

    Memory: the distinct word pairs, and one number per link, shared by both directions.
    """

    chunks: tuple[Chunk, ...]
    source: Ids  # (P,) the source word of every distinct word pair
    target: Ids  # (P,)
    source_size: int
    target_size: int
    pairs: int  # including those with an empty side

    def swapped(self) -> Bitext:
        """Return the same corpus with source and target exchanged."""
        return Bitext(
            tuple(map(_swapped, self.chunks)),
            self.target,
            self.source,
            self.target_size,
            self.source_size,
            self.pairs,
        )


def _swapped(chunk: Chunk) -> Chunk:
    blocks = tuple(
        replace(block, source=block.target, target=block.source, swapped=not block.swapped)
        for block in chunk.blocks
    )
    return replace(chunk, blocks=blocks, target=_flat(block.target for block in blocks))


def _flat(parts: Iterable[Ids]) -> Ids:
    return np.concatenate([part.ravel() for part in parts])


def build_bitext(pairs: Sequence[Pair], pool: ThreadPoolExecutor) -> Bitext:
    """Lay out pairs as a corpus; a pair with an empty side has no links and is in no chunk."""
    source, target = (_Side([pair[side] for pair in pairs]) for side in (0, 1))
    keyed = list(pool.map(lambda blocks: _chunk(blocks, target.size), _grouped(_blocks(source, target))))
    keys = np.unique(np.concatenate([own for _, own in keyed])) if keyed else np.empty(0, np.int64)
    chunks = [replace(chunk, words=np.searchsorted(keys, own).astype(np.int32)) for chunk, own in keyed]
    sources, targets = np.divmod(keys, max(1, target.size))
    return Bitext(
        tuple(chunks),
        sources.astype(np.int32),
        targets.astype(np.int32),
        source.size,
        target.size,
        len(pairs),
    )


class _Side:
    """One side of all pairs, concatenated."""

    def __init__(self, rows: Sequence[Words]) -> None:
        self.lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.words = np.concatenate([np.empty(0, np.int32), *rows], dtype=np.int32, casting="unsafe")
        self.size = int(self.words.max(initial=-1)) + 1

    def rows(self, pairs: Numbers, length: int) -> Ids:
        """Return the words of these pairs, which all have this length."""
        words: Ids = self.words[self.starts[pairs][:, None] + np.arange(length)]
        return words


def _blocks(source: _Side, target: _Side) -> Iterable[PairBlock]:
    """Yield blocks of pairs of one shape, each of at most one chunk."""
    order = np.lexsort((source.lengths, target.lengths))  # stable: keeps the corpus order within a shape
    order = order[(source.lengths[order] > 0) & (target.lengths[order] > 0)]
    shapes = np.stack([target.lengths[order], source.lengths[order]])
    changes = np.flatnonzero(np.diff(shapes, axis=1).any(axis=0)) + 1
    for start, stop in pairwise([0, *changes.tolist(), len(order)] if len(order) else []):
        rows, columns = shapes[:, start].tolist()
        size = max(1, CHUNK // (rows * columns))
        for i in range(start, stop, size):
            pairs = order[i : min(i + size, stop)]
            yield PairBlock(pairs, source.rows(pairs, columns), target.rows(pairs, rows), slice(0, 0))


def _grouped(blocks: Iterable[PairBlock]) -> list[list[PairBlock]]:
    """Group adjacent blocks into chunks of at most CHUNK links, and set their spans."""
    chunks: list[list[PairBlock]] = []
    start = CHUNK
    for block in blocks:
        size = block.source.size * block.shape[0]
        if start + size > CHUNK:
            chunks.append([])
            start = 0
        chunks[-1].append(replace(block, span=slice(start, start + size)))
        start += size
    return chunks


def _chunk(blocks: list[PairBlock], target_size: int) -> tuple[Chunk, Numbers]:
    """Return a chunk without `words`, and the keys of its word pairs: source · target_size + target."""
    keys = np.empty(blocks[-1].span.stop, dtype=np.int64)
    for block in blocks:
        block.view(keys)[...] = block.source[:, None, :] * np.int64(target_size) + block.target[:, :, None]
    own, links = np.unique(keys, return_inverse=True)
    target = _flat(block.target for block in blocks)
    return Chunk(tuple(blocks), np.empty(0, dtype=np.int32), links.astype(np.int32), target), own
