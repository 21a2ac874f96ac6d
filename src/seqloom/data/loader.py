"""Batches for the trainer; each process gets its share of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from seqloom.data.augmentation import SubwordSampling, WordDropout
from seqloom.data.batching import Batches, Collate, Indices, Position, collate, prefetch
from seqloom.data.config import NoiseConfig
from seqloom.data.noise import Noise
from seqloom.data.store import Tokens
from seqloom.distributed.process_group import ProcessGroup
from seqloom.text.config import MASK, TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import Batch


class Feed(NamedTuple):
    """This process's rows of a batch, and the position in the data after it."""

    epoch: int
    batch: int
    data: Batch
    target_tokens: int  # of all rows of the batch, over all processes


LocalRows: TypeAlias = tuple[Batch, int]  # rows of a batch, and the target tokens of all its rows


def collator(noise: NoiseConfig, tokenizers: TokenizerPair, seed: int, *, in_place: bool) -> Collate[Batch]:
    """Return the function that collates the examples at a position of the stream.

    `in_place`: targets are at the masked positions, as in a masked language model.
    """
    if noise.kind == "none":
        return lambda tokens, indices, position: collate(tokens, indices)
    tokenizer = tokenizers.source  # fails for frames, which do not support noise
    return Noise(
        noise, mask=tokenizer.symbol(MASK), vocabulary=tokenizer.size, seed=seed, in_place=in_place
    ).collate


def augmented(
    make_batch: Collate[Batch],
    tokenizers: TokenizerPair,
    seed: int,
    *,
    text: TextConfig,
    longest: int,
    word_dropout: float,
) -> Collate[Batch]:
    """Return the collator with sampled subwords and word dropout, for training only."""
    if text.sampled_sides:
        make_batch = SubwordSampling(text, tokenizers, longest=longest, seed=seed).collate
    return WordDropout(make_batch, word_dropout, tokenizers, seed=seed).collate if word_dropout else make_batch


def local_collator(make_batch: Collate[Batch], group: ProcessGroup, *, random: bool) -> Collate[LocalRows]:
    """Return the function that collates this process's rows of a batch, and only these if possible.

    `random`: the batch has random parts, which are drawn for all its rows.
    """

    def collate_local(tokens: Tokens, indices: Indices, position: Position) -> LocalRows:
        batch = group.shard(len(indices), lambda rows: make_batch(tokens, indices[rows], position))
        return batch, tokens.target_tokens(indices)

    def collate_and_slice(tokens: Tokens, indices: Indices, position: Position) -> LocalRows:
        batch = make_batch(tokens, indices, position)
        return group.shard(len(indices), batch.rows), batch.target_tokens

    return collate_and_slice if random else collate_local


def feeder(batches: Batches, make_rows: Collate[LocalRows]) -> Callable[[int, int], Iterator[Feed]]:
    """Return a function that yields batches without end from a position, with prefetching."""

    def feed(epoch: int, skip: int) -> Iterator[Feed]:
        return prefetch(Feed(*position, *rows) for position, rows in batches.collated(epoch, skip, make_rows))

    return feed
