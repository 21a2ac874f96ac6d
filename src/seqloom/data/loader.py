"""Prepared pairs to the batches that a trainer is fed with, each process with its own rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from seqloom.data.batching import Batches, Collate, Indices, Position, collate, prefetch
from seqloom.data.config import NoiseConfig
from seqloom.data.noise import Noise
from seqloom.data.store import Tokens
from seqloom.distributed.process_group import ProcessGroup
from seqloom.text.config import MASK
from seqloom.text.pair import TokenizerPair
from seqloom.types import Batch


class Feed(NamedTuple):
    """This process's rows of a batch, and the place in the data that comes after it."""

    epoch: int
    batch: int
    data: Batch
    target_tokens: int  # of all rows of the batch, in whichever process they are


Share: TypeAlias = tuple[Batch, int]  # rows of a batch, and the target tokens of all its rows


def collator(noise: NoiseConfig, tokenizers: TokenizerPair, seed: int, *, in_place: bool) -> Collate[Batch]:
    """Return the function that makes a batch of the examples at a position of the stream.

    `in_place`: the targets stay at the masked positions, as in a masked language model.
    """
    if noise.kind == "none":
        return lambda tokens, indices, place: collate(tokens, indices)
    tokenizer = tokenizers.source  # sources that are frames have no tokenizer, and no noise either
    return Noise(
        noise, mask=tokenizer.symbol(MASK), vocabulary=tokenizer.size, seed=seed, in_place=in_place
    ).collate


def sharer(noise: NoiseConfig, make_batch: Collate[Batch], group: ProcessGroup) -> Collate[Share]:
    """What makes this process's rows of a batch, and no others if it can."""

    def own(tokens: Tokens, indices: Indices, place: Position) -> Share:
        batch = group.shard(len(indices), lambda rows: make_batch(tokens, indices[rows], place))
        return batch, tokens.target_tokens(indices)

    def cut(tokens: Tokens, indices: Indices, place: Position) -> Share:
        batch = make_batch(tokens, indices, place)
        return group.shard(len(indices), batch.rows), batch.target_tokens

    return own if noise.kind == "none" else cut  # what is hidden is drawn for the whole batch


def feeder(batches: Batches, make_share: Collate[Share]) -> Callable[[int, int], Iterator[Feed]]:
    """Endless shares from a place on, some prepared ahead."""

    def feed(epoch: int, skip: int) -> Iterator[Feed]:
        return prefetch(Feed(*place, *share) for place, share in batches.collated(epoch, skip, make_share))

    return feed
