"""Batches of a corpus that is tokenised while it is read: nothing is stored, and memory holds two windows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TypeVar

import numpy as np

from seqloom.data.batching import Collate, Indices, Position, batches_of, prefetch
from seqloom.data.encoding import Numericalizer
from seqloom.data.mixture import ORDER, WINDOW, Mixture
from seqloom.data.report import DataReport
from seqloom.data.store import Tokens
from seqloom.errors import SeqloomError
from seqloom.types import Example

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class StreamedShard:
    """A file of so many pairs, read anew in each pass."""

    pairs: int
    read: Callable[[], Iterator[Example]]


@dataclass(frozen=True)
class PairSource:
    """What is streamed: corpora of shards, how they are mixed, and what becomes of their pairs."""

    corpora: Sequence[Sequence[StreamedShard]]
    mixture: Mixture
    keep: Callable[[Example], bool]  # False: held out, so it has a place in a window but is in no batch
    encoder: Numericalizer

    def __len__(self) -> int:
        return self.mixture.pairs


class WindowStream:
    """Batches of windows of a stream, each window shuffled and cut into batches by itself.

    The place in an epoch is the number of pairs that are done, so from it alone follows which shard to open and
    how many of its pairs to pass by. Pairs that are dropped or held out count as done with their window.
    """

    def __init__(self, source: PairSource, *, batch_tokens: int, seed: int) -> None:
        self._source, self._mixture = source, source.mixture
        self._batch_tokens, self._seed = batch_tokens, seed

    @property
    def per_epoch(self) -> int:
        """How many pairs an epoch has."""
        return self._mixture.pairs

    def collated(self, epoch: int, skip: int, collate: Collate[T]) -> Iterator[tuple[Position, T]]:
        """Endless batches after the first `skip` pairs of that epoch, each with the position after it."""
        for position, tokens, indices in self._chosen(epoch, skip):
            yield position, collate(tokens, indices, position)

    def _chosen(self, epoch: int, skip: int) -> Iterator[tuple[Position, Tokens, Indices]]:
        first = self._mixture.window_of(skip)
        # The next window is read and tokenised while batches of this one are in use.
        for current, number, tokens in prefetch(self._windows(epoch, first), depth=1):
            done, end = self._mixture.start(number), self._mixture.start(number + 1)
            random = np.random.default_rng([self._seed, current, number, WINDOW])
            batches = batches_of(tokens, [range(len(tokens))], self._batch_tokens, random)
            for left, batch in zip(reversed(range(len(batches))), batches, strict=True):
                done += len(batch)
                position = Position(current, done if left else end)
                if position > (epoch, skip):
                    yield position, tokens, batch

    def _windows(self, epoch: int, first: int) -> Iterator[tuple[int, int, Tokens]]:
        """Endless windows from that one of an epoch on: epoch, number and pairs."""
        begin = self._mixture.window(epoch, first)
        readers = [self._endless(corpus, places.start) for corpus, places in enumerate(begin)]
        for current in count(epoch):
            report = DataReport()
            for number in range(first, self._mixture.windows):
                takes = map(len, self._mixture.window(current, number))
                examples = (
                    pair for reader, take in zip(readers, takes, strict=True) for pair in islice(reader, take)
                )
                yield current, number, self._tokens(examples, report)
            self._report(current, report, whole=first == 0)
            first = 0

    def _endless(self, corpus: int, place: int) -> Iterator[Example]:
        """The pairs of a corpus from a place on, pass after pass; each pass has its shards in another order."""
        first, skip = divmod(place, self._mixture.sizes[corpus])
        shards = self._source.corpora[corpus]
        for turn in count(first):
            random = np.random.default_rng([self._seed, corpus, turn, ORDER])
            for number in random.permutation(len(shards)):
                shard = shards[number]
                if skip < shard.pairs:
                    yield from islice(shard.read(), skip, None)
                skip = max(0, skip - shard.pairs)

    def _tokens(self, examples: Iterable[Example], report: DataReport) -> Tokens:
        def kept() -> Iterator[Example]:
            for example in examples:
                if self._source.keep(example):
                    report.total += 1
                    yield example

        return Tokens.of(kept(), self._source.encoder, report)

    def _report(self, epoch: int, report: DataReport, *, whole: bool) -> None:
        """Says what the epoch left out; if that was all, the search for a pair would never end."""
        if whole and not report.kept:
            raise SeqloomError(
                f"The stream has no pair to learn from: {report.summary()}.",
                "see data.max_length and data.valid_share",
            )
        if report.counts:
            logger.info(f"data: epoch {epoch + 1}: {report.summary()}")
