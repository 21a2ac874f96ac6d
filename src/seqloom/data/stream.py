"""Batches of a corpus that is tokenised while it is read, with two windows in memory and no token store."""

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
    """File that is read again in each pass, and its number of pairs."""

    pairs: int
    read: Callable[[], Iterator[Example]]


@dataclass(frozen=True)
class PairSource:
    """Corpora of shards to stream, their mixture, and the filter and encoder of their pairs."""

    corpora: Sequence[Sequence[StreamedShard]]
    mixture: Mixture
    keep: Callable[[Example], bool]  # False for held-out pairs, which count in a window but are in no batch
    encoder: Numericalizer

    def __len__(self) -> int:
        return self.mixture.pairs


class WindowStream:
    """Batches of a stream of windows; each window is shuffled and divided into batches separately.

    The position in an epoch is the number of pairs that are done, which determines the shard to open and the
    number of its pairs to skip. Dropped and held-out pairs count as done at the end of their window.
    """

    def __init__(self, source: PairSource, *, batch_tokens: int, seed: int) -> None:
        self._source, self._mixture = source, source.mixture
        self._batch_tokens, self._seed = batch_tokens, seed

    @property
    def per_epoch(self) -> int:
        """Number of pairs in an epoch."""
        return self._mixture.pairs

    def collated(self, epoch: int, skip: int, collate: Collate[T]) -> Iterator[tuple[Position, T]]:
        """Yield batches without end after `skip` pairs of an epoch, each with the position after it."""
        for position, tokens, indices in self._chosen(epoch, skip):
            yield position, collate(tokens, indices, position)

    def _chosen(self, epoch: int, skip: int) -> Iterator[tuple[Position, Tokens, Indices]]:
        first = self._mixture.window_of(skip)
        # The next window is read and tokenised while the batches of this one are in use.
        for current, number, tokens in prefetch(self._windows(epoch, first), depth=1):
            done, end = self._mixture.start(number), self._mixture.start(number + 1)
            random = np.random.default_rng([self._seed, current, number, WINDOW])
            batches = batches_of(tokens, [range(len(tokens))], self._batch_tokens, random)
            for remaining, batch in zip(reversed(range(len(batches))), batches, strict=True):
                done += len(batch)
                position = Position(current, done if remaining else end)
                if position > (epoch, skip):
                    yield position, tokens, batch

    def _windows(self, epoch: int, first: int) -> Iterator[tuple[int, int, Tokens]]:
        """Yield windows without end from a window of an epoch: epoch, window number and pairs."""
        begin = self._mixture.window(epoch, first)
        readers = [self._endless(corpus, positions.start) for corpus, positions in enumerate(begin)]
        for current in count(epoch):
            report = DataReport()
            for number in range(first, self._mixture.windows):
                takes = map(len, self._mixture.window(current, number))
                examples = (
                    pair for reader, take in zip(readers, takes, strict=True) for pair in islice(reader, take)
                )
                yield current, number, self._tokens(examples, report)
            self._report_epoch(current, report, complete=first == 0)
            first = 0

    def _endless(self, corpus: int, position: int) -> Iterator[Example]:
        """Yield the pairs of a corpus from a position, pass after pass; each pass shuffles the shards."""
        first, skip = divmod(position, self._mixture.sizes[corpus])
        shards = self._source.corpora[corpus]
        for pass_number in count(first):
            random = np.random.default_rng([self._seed, corpus, pass_number, ORDER])
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

    def _report_epoch(self, epoch: int, report: DataReport, *, complete: bool) -> None:
        """Report the dropped lines of an epoch; raise if no pair is left, since the loop would never end."""
        if complete and not report.kept:
            raise SeqloomError(
                f"The stream has no training pairs: {report.summary()}.",
                "check data.max_length and data.valid_share",
            )
        if report.counts:
            logger.info(f"data: epoch {epoch + 1}: {report.summary()}")
