"""A parallel corpus laid out for EM: equal shapes side by side, every distinct word pair numbered once."""

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
class Block:
    """The B pairs of a chunk that have S source and T target words."""

    pairs: Numbers  # (B,) their numbers in the corpus
    source: Ids  # (B, S)
    target: Ids  # (B, T)
    span: slice  # their part of the chunk's links
    turned: bool = False  # the links stand as (B, S, T)

    @property
    def shape(self) -> tuple[int, int]:
        """T, S."""
        return self.target.shape[1], self.source.shape[1]

    def view(self, links: NDArray[Kind]) -> NDArray[Kind]:
        """This block's part of something that has one value per link of the chunk, (B, T, S)."""
        rows, columns = self.shape[::-1] if self.turned else self.shape
        part = links[self.span].reshape(len(self.pairs), rows, columns)
        return part.swapaxes(1, 2) if self.turned else part


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some blocks with the word pair of each of their links, as a place in `words`."""

    blocks: tuple[Block, ...]
    words: Ids  # the numbers of the word pairs that occur here, ascending
    links: Ids  # (L,)
    target: Ids  # the target words of all blocks, one after the other

    @property
    def pairs(self) -> int:
        return sum(len(block.pairs) for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Bitext:
    """The corpus, of which a model explains the target by the source; `turned` is for the other direction.

    The memory is that of the distinct word pairs, and of one number per link for both directions.
    """

    chunks: tuple[Chunk, ...]
    source: Ids  # (P,) the source word of every distinct word pair
    target: Ids  # (P,)
    source_size: int
    target_size: int
    pairs: int  # those with an empty side too

    def turned(self) -> Bitext:
        """The same corpus with source and target exchanged."""
        return Bitext(
            tuple(map(_turned, self.chunks)),
            self.target,
            self.source,
            self.target_size,
            self.source_size,
            self.pairs,
        )


def _turned(chunk: Chunk) -> Chunk:
    blocks = tuple(
        replace(block, source=block.target, target=block.source, turned=not block.turned)
        for block in chunk.blocks
    )
    return replace(chunk, blocks=blocks, target=_flat(block.target for block in blocks))


def _flat(parts: Iterable[Ids]) -> Ids:
    return np.concatenate([part.ravel() for part in parts])


def lay_out(pairs: Sequence[Pair], pool: ThreadPoolExecutor) -> Bitext:
    """The corpus of these pairs; one with an empty side has no links and is in no chunk."""
    source, target = (_Side([pair[side] for pair in pairs]) for side in (0, 1))
    found = list(pool.map(lambda blocks: _chunk(blocks, target.size), _in_chunks(_blocks(source, target))))
    keys = np.unique(np.concatenate([own for _, own in found])) if found else np.empty(0, np.int64)
    chunks = [replace(chunk, words=np.searchsorted(keys, own).astype(np.int32)) for chunk, own in found]
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
    """One side of all pairs, one after the other."""

    def __init__(self, rows: Sequence[Words]) -> None:
        self.lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.words = np.concatenate([np.empty(0, np.int32), *rows], dtype=np.int32, casting="unsafe")
        self.size = int(self.words.max(initial=-1)) + 1

    def rows(self, chosen: Numbers, length: int) -> Ids:
        """The words of these pairs, all of that length."""
        found: Ids = self.words[self.starts[chosen][:, None] + np.arange(length)]
        return found


def _blocks(source: _Side, target: _Side) -> Iterable[Block]:
    """Pairs of one shape side by side, in parts of at most a chunk."""
    order = np.lexsort((source.lengths, target.lengths))  # stable: equal shapes stay in the order of the corpus
    order = order[(source.lengths[order] > 0) & (target.lengths[order] > 0)]
    shapes = np.stack([target.lengths[order], source.lengths[order]])
    changes = np.flatnonzero(np.diff(shapes, axis=1).any(axis=0)) + 1
    for start, stop in pairwise([0, *changes.tolist(), len(order)] if len(order) else []):
        rows, columns = shapes[:, start].tolist()
        size = max(1, CHUNK // (rows * columns))
        for i in range(start, stop, size):
            chosen = order[i : min(i + size, stop)]
            yield Block(chosen, source.rows(chosen, columns), target.rows(chosen, rows), slice(0, 0))


def _in_chunks(blocks: Iterable[Block]) -> list[list[Block]]:
    """Neighbouring blocks together while they have no more links than a chunk, each with its span."""
    chunks: list[list[Block]] = []
    start = CHUNK
    for block in blocks:
        size = block.source.size * block.shape[0]
        if start + size > CHUNK:
            chunks.append([])
            start = 0
        chunks[-1].append(replace(block, span=slice(start, start + size)))
        start += size
    return chunks


def _chunk(blocks: list[Block], target_size: int) -> tuple[Chunk, Numbers]:
    """The chunk but for its `words`, which stand beside it as source · target_size + target."""
    keys = np.empty(blocks[-1].span.stop, dtype=np.int64)
    for block in blocks:
        block.view(keys)[...] = block.source[:, None, :] * np.int64(target_size) + block.target[:, :, None]
    own, links = np.unique(keys, return_inverse=True)
    target = _flat(block.target for block in blocks)
    return Chunk(tuple(blocks), np.empty(0, dtype=np.int32), links.astype(np.int32), target), own
