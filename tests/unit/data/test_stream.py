"""Streams: complete epochs, proportions of mixtures, and exact resumption from any position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.batching import Position, collate
from seqloom.data.encoding import Numericalizer
from seqloom.data.mixture import Mixture
from seqloom.data.stream import PairSource, StreamedShard, WindowStream
from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import Batch, Example

WORDS = [f"w{number}" for number in range(400)]
TOKENIZERS = TokenizerPair.train(
    TextConfig(tokenizer="word", byte_fallback=False, vocab_size=1000),
    lambda: [(word, word) for word in [*WORDS, "x"]],
)


def shards_of(sizes: Sequence[int], first: int = 0) -> list[StreamedShard]:
    """Return shards of the given sizes; each pair has a unique word and 0 to 4 other words."""
    shards = []
    for size in sizes:
        pairs = [Example(f"w{n}" + " x" * (n % 5), f"w{n}", n, "f") for n in range(first, first + size)]
        shards.append(StreamedShard(size, lambda pairs=pairs: iter(pairs)))  # type: ignore[misc]
        first += size
    return shards


def source(
    corpora: Sequence[Sequence[StreamedShard]],
    *,
    window: int,
    weights: Sequence[float] = (1,),
    held_out: Sequence[int] = (),
    max_length: int = 9,
) -> PairSource:
    sizes = [sum(shard.pairs for shard in shards) for shards in corpora]
    return PairSource(
        corpora,
        Mixture(sizes, weights, window=window),
        keep=lambda example: example.line not in held_out,
        encoder=Numericalizer(TOKENIZERS, max_length=max_length, long="drop"),
    )


def stream(pairs: PairSource, **options: Any) -> WindowStream:
    return WindowStream(pairs, **{"batch_tokens": 30, "seed": 1, **options})


Placed = tuple[Position, Batch]


def batches(of: WindowStream, epoch: int = 0, skip: int = 0) -> Iterator[Placed]:
    return of.collated(epoch, skip, lambda tokens, indices, place: collate(tokens, indices))


def epoch(of: WindowStream, number: int = 0) -> list[Placed]:
    """Return the batches of one epoch."""
    found = []
    for position, batch in batches(of, number):
        if position.epoch > number:
            break
        found.append((position, batch))
    return found


def words(placed: Sequence[Placed]) -> list[str]:
    """Return the word of each pair."""
    return [
        TOKENIZERS.target.decode(row[:length].tolist())
        for _, batch in placed
        for row, length in zip(batch.target_out, batch.target_lengths - 1, strict=True)  # type: ignore[arg-type, operator]
    ]


def assert_same(found: Sequence[Placed], expected: Sequence[Placed]) -> None:
    assert [position for position, _ in found] == [position for position, _ in expected]
    for (_, one), (_, two) in zip(found, expected, strict=True):
        for name in ("source", "source_lengths", "target_in", "target_out", "target_lengths"):
            assert torch.equal(getattr(one, name), getattr(two, name))


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=5), window=st.integers(1, 80), at=st.integers(0, 2)
)
def test_an_epoch_has_every_pair_once_for_any_shards_and_windows(
    sizes: list[int], window: int, at: int
) -> None:
    assert sorted(words(epoch(stream(source([shards_of(sizes)], window=window)), at))) == sorted(
        WORDS[: sum(sizes)]
    )


@settings(max_examples=30)
@given(
    corpora=st.lists(st.lists(st.integers(4, 25), min_size=1, max_size=3), min_size=1, max_size=3),
    window=st.integers(1, 60),
    stop=st.integers(0, 60),
    seed=st.integers(0, 3),
)
def test_resuming_at_any_position_gives_the_same_batches(
    corpora: list[list[int]], window: int, stop: int, seed: int
) -> None:
    """Resume at the end and in the middle of a window, with pairs that are too long or held out."""
    parts = [shards_of(sizes, first=100 * number) for number, sizes in enumerate(corpora)]
    weights = [1.0, 2.5, 0.3][: len(parts)]
    pairs = source(parts, window=window, weights=weights, held_out=[1, 2, 101], max_length=4)
    whole = list(islice(batches(stream(pairs, seed=seed)), stop + 15))
    place = whole[stop - 1][0] if stop else Position(0, 0)
    assert_same(list(islice(batches(stream(pairs, seed=seed), *place), 15)), whole[stop:])


def test_positions_increase_to_the_end_of_the_epoch() -> None:
    one = stream(source([shards_of([40, 30])], window=25, held_out=[3, 69]))
    places = [position for position, _ in epoch(one, 1)]
    assert places == sorted(set(places))
    assert places[-1] == (1, 70) and one.per_epoch == 70
    assert (1, 46) in places  # 70 pairs in windows of 23, 23 and 24


def test_each_pass_shuffles_the_shards_and_windows_are_shuffled() -> None:
    one = stream(source([shards_of([20, 20, 20])], window=10))
    orders = [words(epoch(one, number)) for number in range(4)]
    assert len({tuple(order) for order in orders}) == 4
    assert len({tuple(int(word[1:]) // 20 for word in order) for order in orders}) > 1
    first = [int(word[1:]) for word in orders[0][:10]]
    assert first != sorted(first) and max(first) - min(first) == 9
    assert words(epoch(stream(source([shards_of([20, 20, 20])], window=10), seed=2))) != orders[0]


def test_corpora_are_drawn_in_proportion_to_their_weights() -> None:
    parts = [shards_of([150, 50]), shards_of([20], first=200)]
    one = stream(source(parts, window=44, weights=[1, 3]))
    counts = [Counter(int(word[1:]) < 200 for word in words(epoch(one, number))) for number in range(4)]
    assert counts == [{True: 55, False: 165}] * 4
    drawn = words([placed for placed in epoch(one) if placed[0].batch <= 44])  # also in one window
    assert len(drawn) == 44 and sum(int(word[1:]) < 200 for word in drawn) == 11


def test_a_small_corpus_is_repeated_and_a_large_one_continued() -> None:
    parts = [shards_of([150, 50]), shards_of([20], first=200)]
    one = stream(source(parts, window=44, weights=[1, 3]))
    seen = Counter(word for number in range(4) for word in words(epoch(one, number)))
    large = [seen[word] for word in WORDS[:200]]
    small = [seen[word] for word in WORDS[200:220]]
    assert set(large) <= {1, 2} and sum(large) == 220  # 55 in each of 4 epochs: one pass and a tenth
    assert set(small) == {33}


def test_dropped_lines_are_reported_after_the_epoch_and_held_out_ones_are_not(messages: list[str]) -> None:
    pairs = source([shards_of([40])], window=9, held_out=[0, 1], max_length=3)
    found = words(epoch(stream(pairs)))
    assert sorted(found) == sorted(f"w{n}" for n in range(2, 40) if n % 5 < 3)
    assert messages[0] == "data: epoch 1: 22 of 38 lines kept (16 source longer than data.max_length=3 tokens)"


def test_a_stream_without_pairs_is_an_error_and_not_an_endless_loop() -> None:
    pairs = source([shards_of([10])], window=4, held_out=range(10))
    with pytest.raises(SeqloomError, match="The stream has no training pairs: 0 of 0 lines kept"):
        next(batches(stream(pairs)))


def test_resuming_at_the_end_of_an_epoch() -> None:
    one = stream(source([shards_of([12])], window=5))
    position, _ = next(batches(one, 0, 12))
    assert position.epoch == 1


def test_skipping_does_not_tokenise_or_open_earlier_shards() -> None:
    read: list[int] = []

    def counted(number: int, shard: StreamedShard) -> StreamedShard:
        def lines() -> Iterator[Example]:
            read.append(number)
            return shard.read()

        return StreamedShard(shard.pairs, lines)

    shards = [counted(number, shard) for number, shard in enumerate(shards_of([10] * 6))]
    one = stream(source([shards], window=10))
    next(batches(one, 0, 40))
    assert 1 <= len(read) <= 3  # the window of the position, and prefetched ones
