"""Prepared pairs to the batches that a trainer is fed with, each process with its own rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from seqloom.config import Config
from seqloom.corpus import Prepared
from seqloom.data.batching import Batches, Collate, Indices, Position, collate, prefetch
from seqloom.data.noise import Noise
from seqloom.data.store import Tokens
from seqloom.registry import architecture
from seqloom.team import Team
from seqloom.text.config import MASK
from seqloom.training.loop import Feed
from seqloom.types import Batch

Share: TypeAlias = tuple[Batch, int]  # rows of a batch, and the target tokens of all its rows


def collator(config: Config, prepared: Prepared) -> Collate[Batch]:
    """What makes a batch of some examples at a place of the stream."""
    if config.data.noise.kind == "none":
        return lambda tokens, indices, place: collate(tokens, indices)
    tokenizer = prepared.tokenizers.source
    return Noise(
        config.data.noise,
        mask=tokenizer.symbol(MASK),
        vocabulary=tokenizer.size,
        seed=config.train.seed,
        in_place=architecture(config.model.name).task == "fill",
    ).collate


def sharer(config: Config, make_batch: Collate[Batch], team: Team) -> Collate[Share]:
    """What makes this process's rows of a batch, and no others if it can."""

    def own(tokens: Tokens, indices: Indices, place: Position) -> Share:
        batch = team.share(len(indices), lambda rows: make_batch(tokens, indices[rows], place))
        return batch, tokens.target_tokens(indices)

    def cut(tokens: Tokens, indices: Indices, place: Position) -> Share:
        batch = make_batch(tokens, indices, place)
        return team.share(len(indices), batch.rows), batch.target_tokens

    return own if config.data.noise.kind == "none" else cut  # what is hidden is drawn for the whole batch


def feeder(batches: Batches, make_share: Collate[Share]) -> Callable[[int, int], Iterator[Feed]]:
    """Endless shares from a place on, some prepared ahead."""

    def feed(epoch: int, skip: int) -> Iterator[Feed]:
        return prefetch(Feed(*place, *share) for place, share in batches.collated(epoch, skip, make_share))

    return feed
