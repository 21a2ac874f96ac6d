"""Batches: every example once per epoch, token budget, deterministic order, exact resumption."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data import batching
from seqloom.data.batching import BatchStream, Position, collate, collate_ids, padding, prefetch
from seqloom.data.encoding import Numericalizer
from seqloom.data.mixture import Mixture
from seqloom.data.store import TokenStore
from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, Batch, Example


class Lengths(TokenStore):
    """Store of lengths only: batches must be selected and skipped without reading ids."""

    def __init__(self, source: list[int], target: list[int]) -> None:
        self._count, self.features, self._maps = len(source), 0, []
        self._both = np.array(source, np.int64), np.array(target, np.int64)

    def lengths(self, start: int, stop: int) -> Any:
        assert stop - start <= batching._BLOCK, "lengths are read block by block"
        return tuple(side[start:stop] for side in self._both)


PAIRS_OF_LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=120)


@st.composite
def streams(draw: st.DrawFn, shuffle: bool = True) -> BatchStream:
    source, target = zip(*draw(PAIRS_OF_LENGTHS), strict=True)
    return BatchStream(
        Lengths(list(source), list(target)),
        batch_tokens=draw(st.integers(1, 400)),
        seed=draw(st.integers(0, 5)),
        pool=draw(st.integers(1, 64)),
        shuffle=shuffle,
    )


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """Use many blocks and pools even in small corpora."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "_BLOCK", 8)
        yield


def as_lists(batches: Any) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@settings(deadline=None)
@given(stream=streams() | streams(shuffle=False), epoch=st.integers(0, 3))
def test_an_epoch_has_every_example_once(stream: BatchStream, epoch: int) -> None:
    seen = sorted(i for batch in as_lists(stream.epoch(epoch)) for i in batch)
    assert seen == list(range(len(stream._store)))


@settings(deadline=None)
@given(stream=streams())
def test_batches_stay_within_the_budget(stream: BatchStream) -> None:
    source, target = stream._store._both  # type: ignore[attr-defined]
    for batch in stream.epoch(0):
        cost = len(batch) * max(source[batch].max(), target[batch].max())
        with_eos = cost + len(batch)
        assert with_eos <= stream._batch_tokens or len(batch) == 1


@settings(deadline=None)
@given(stream=streams(), epoch=st.integers(0, 3))
def test_seed_and_epoch_determine_the_batches(stream: BatchStream, epoch: int) -> None:
    twin = BatchStream(stream._store, batch_tokens=stream._batch_tokens, seed=stream._seed, pool=stream._pool)
    assert as_lists(stream.epoch(epoch)) == as_lists(twin.epoch(epoch))


@pytest.mark.parametrize("change", [{"seed": 1}, {"epoch": 1}])
def test_another_seed_or_epoch_gives_another_order(change: dict[str, int]) -> None:
    store = Lengths([5] * 100, [5] * 100)
    first, second = (
        as_lists(BatchStream(store, batch_tokens=60, seed=at.get("seed", 0)).epoch(at.get("epoch", 0)))
        for at in ({}, change)
    )
    assert first != second


def test_without_shuffling_every_epoch_is_the_same() -> None:
    stream = BatchStream(Lengths([3, 1, 2] * 9, [1, 2, 3] * 9), batch_tokens=20, seed=0, shuffle=False)
    assert as_lists(stream.epoch(0)) == as_lists(stream.epoch(1))


@settings(max_examples=50, deadline=None)
@given(stream=streams(), stop=st.integers(0, 60))
def test_resuming_gives_the_tail_of_the_uninterrupted_stream(stream: BatchStream, stop: int) -> None:
    whole = list(islice(stream.from_position(0, 0), stop + 40))
    position = whole[stop - 1][0] if stop else Position(0, 0)
    tail = list(islice(stream.from_position(*position), 40))
    assert [(at, batch.tolist()) for at, batch in tail] == [(at, batch.tolist()) for at, batch in whole[stop:]]


def test_the_position_is_the_one_after_the_batch() -> None:
    stream = BatchStream(Lengths([4] * 3, [4] * 3), batch_tokens=5, seed=0)
    positions = [position for position, _ in islice(stream.from_position(2, 1), 4)]
    assert positions == [(2, 2), (2, 3), (3, 1), (3, 2)]


MIXED = st.lists(st.tuples(st.integers(1, 60), st.floats(0.1, 5)), min_size=1, max_size=3)


def mixed(sizes: Sequence[int], weights: Sequence[float], window: int, seed: int = 0) -> BatchStream:
    store = Lengths([1 + i % 9 for i in range(sum(sizes))], [1 + i % 7 for i in range(sum(sizes))])
    return BatchStream(store, batch_tokens=40, seed=seed, mixture=Mixture(sizes, weights, window=window))


@settings(max_examples=50, deadline=None)
@given(parts=MIXED, window=st.integers(1, 50), stop=st.integers(0, 40), seed=st.integers(0, 3))
def test_resuming_a_mixture_gives_the_tail_of_the_uninterrupted_stream(
    parts: list[tuple[int, float]], window: int, stop: int, seed: int
) -> None:
    sizes, weights = zip(*parts, strict=True)
    whole = list(islice(mixed(sizes, weights, window, seed).from_position(0, 0), stop + 20))
    position = whole[stop - 1][0] if stop else Position(0, 0)
    tail = list(islice(mixed(sizes, weights, window, seed).from_position(*position), 20))
    assert [(at, batch.tolist()) for at, batch in tail] == [(at, batch.tolist()) for at, batch in whole[stop:]]


def test_a_mixture_follows_its_weights_repeats_small_corpora_and_continues_large_ones() -> None:
    stream = mixed([200, 20], [1, 3], window=44)
    epochs = [np.concatenate(list(stream.epoch(number))) for number in range(4)]
    assert [int((epoch < 200).sum()) for epoch in epochs] == [55] * 4
    seen = np.bincount(np.concatenate(epochs), minlength=220)
    assert seen[200:].tolist() == [33] * 20
    assert set(seen[:200].tolist()) == {1, 2}


@settings(max_examples=30, deadline=None)
@given(parts=MIXED, window=st.integers(1, 50), epoch=st.integers(0, 3))
def test_a_mixture_by_size_has_every_example_once(
    parts: list[tuple[int, float]], window: int, epoch: int
) -> None:
    sizes = [size for size, _ in parts]
    seen = sorted(np.concatenate(list(mixed(sizes, sizes, window).epoch(epoch))).tolist())
    assert seen == list(range(sum(sizes)))


def test_an_epoch_is_read_pool_by_pool() -> None:
    requested: list[int] = []

    class Watched(Lengths):
        def lengths(self, start: int, stop: int) -> Any:
            requested.append(start)
            return super().lengths(start, stop)

    next(BatchStream(Watched([1] * 800, [1] * 800), batch_tokens=10, seed=0, pool=16).epoch(0))
    assert len(requested) == 2


def test_an_empty_store_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="No examples are left"):
        BatchStream(Lengths([], []), batch_tokens=10, seed=0)


def test_neighbours_are_similar_where_bands_meet() -> None:
    source, target = np.tile(np.arange(1, 21), 3), np.repeat([5, 6, 7], 20)
    order = batching._by_length(source, target, batch_tokens=10)
    assert target[order].tolist() == sorted(target)
    assert np.abs(np.diff(source[order])).max() <= 1


def test_batches_by_length_have_a_fraction_of_the_padding_of_random_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "_BLOCK", 1024)
    random = np.random.default_rng(0)
    source = np.clip(random.gamma(8, 1.7, 20_000), 2, 60).astype(int)
    target = np.clip(source * random.normal(1.02, 0.18, 20_000), 2, 70).astype(int)
    stream = BatchStream(Lengths(source.tolist(), target.tolist()), batch_tokens=4096, seed=0)
    batches = list(stream.epoch(0))

    def waste(batches: list[Any]) -> int:
        padded = sum(len(batch) * (source[batch].max() + target[batch].max()) for batch in batches)
        return int(padded - source.sum() - target.sum())

    by_chance = np.array_split(random.permutation(20_000), len(batches))
    assert waste(batches) < waste(by_chance) / 10


@pytest.mark.real_data
def test_padding_is_small_on_multi30k(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_BLOCK", 1024)
    sides = [Path(os.environ["SEQLOOM_DATA"], "multi30k", f"train.{side}.gz") for side in ("en", "de")]
    lines = [gzip.decompress(side.read_bytes()).decode("utf-8").splitlines() for side in sides]
    tokenizers = TokenizerPair.train(TextConfig(), lambda: zip(*lines, strict=True))
    store = TokenStore.write(
        tmp_path / "store",
        (Example(source, target) for source, target in zip(*lines, strict=True)),
        Numericalizer(tokenizers, max_length=256, long="error", threads=2),
    )
    batches = [collate(store, batch) for batch in BatchStream(store, batch_tokens=4096, seed=0).epoch(0)]
    real = [int(batch.source_lengths.sum()) + batch.target_tokens for batch in batches]
    padded = [count / padding(batch) for count, batch in zip(real, batches, strict=True)]
    assert sum(real) / sum(padded) >= 0.95


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    config = TextConfig(tokenizer="word", byte_fallback=False)
    pair = TokenizerPair.train(config, lambda: [(" ".join(f"w{i}" for i in range(20)), "w0")])
    data = [Example("w1 " * (1 + i % 4), "w2 " * (1 + i % 3)) for i in range(30)]
    folder: Path = tmp_path_factory.mktemp("data") / "store"
    return TokenStore.write(folder, data, Numericalizer(pair, max_length=50, long="error"))


def test_a_batch_from_lists() -> None:
    batch = collate_ids([[5, 6, 7], [8], []], [[9], [10, 11], []], [4, 2, 0])
    assert batch.source.tolist() == [[5, 6, 7, EOS], [8, EOS, PAD, PAD], [EOS, PAD, PAD, PAD]]
    assert batch.source_lengths.tolist() == [4, 2, 1]
    assert batch.target_in is not None
    assert batch.target_in.tolist() == [[BOS, 9, PAD], [BOS, 10, 11], [BOS, PAD, PAD]]
    assert batch.target_out is not None
    assert batch.target_out.tolist() == [[9, EOS, PAD], [10, 11, EOS], [EOS, PAD, PAD]]
    assert batch.target_lengths is not None
    assert batch.target_lengths.tolist() == [2, 3, 1]
    assert batch.index.tolist() == [4, 2, 0]
    assert batch.target_tokens == 6
    assert {t.dtype for t in vars_of(batch)} == {torch.int64}


def vars_of(batch: Batch) -> list[torch.Tensor]:
    names = ("source", "source_lengths", "index", "target_in", "target_out", "target_lengths")
    return [getattr(batch, name) for name in names]


def test_a_batch_of_only_sources_has_no_target() -> None:
    batch = collate_ids([[5], [6, 7]], None, [0, 1])
    assert batch.source.tolist() == [[5, EOS, PAD], [6, 7, EOS]]
    assert batch.target_in is None
    assert batch.target_tokens == 0
    assert padding(batch) == 5 / 6


def test_a_batch_from_the_store_equals_one_from_lists(store: TokenStore) -> None:
    indices = np.array([7, 0, 29, 3])
    lists = [[side(i).tolist() for i in indices] for side in (store.source, store.target)]
    ours, theirs = collate(store, indices), collate_ids(lists[0], lists[1], indices.tolist())
    assert all(torch.equal(a, b) for a, b in zip(vars_of(ours), vars_of(theirs), strict=True))
    assert ours.target_tokens == theirs.target_tokens
    assert {t.dtype for t in vars_of(ours)} == {torch.int64}


def test_padding_is_the_fraction_of_real_tokens() -> None:
    assert padding(collate_ids([[5, 6, 7], [8]], [[9], [9]], [0, 1])) == (4 + 2 + 2 + 2) / (8 + 4)


def test_prefetching_does_not_change_the_items() -> None:
    assert list(prefetch(iter(range(20)))) == list(range(20))
    assert list(prefetch(iter([]))) == []
    assert list(prefetch(iter([0, None, []]), depth=1)) == [0, None, []]


def test_prefetching_prepares_a_limited_number_of_items() -> None:
    made: list[int] = []
    ahead = threading.Event()

    def items() -> Iterator[int]:
        for i in range(100):
            made.append(i)
            if i == 2:
                ahead.set()
            yield i

    stream = prefetch(items(), depth=2)
    assert next(stream) == 0
    assert ahead.wait(10), "two items are prepared while the first is in use"
    assert made == [0, 1, 2]
    stream.close()  # type: ignore[attr-defined]


def test_prefetching_forwards_an_exception_in_order() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)
        raise ValueError("a bad batch")

    stream = prefetch(items())
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(ValueError, match="a bad batch"):
        next(stream)


def test_prefetching_stops_with_its_consumer() -> None:
    before = threading.active_count()
    stream = prefetch(iter(range(10**9)))
    assert next(stream) == 0
    assert threading.active_count() == before + 1
    stream.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_heads_are_padded_with_the_source() -> None:
    batch = collate_ids([[5, 6, 7], [8], []], [[9]] * 3, range(3), [[2, 0, -1], [0], []])
    assert batch.source_heads is not None
    assert batch.source_heads.tolist() == [[2, 0, -1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert batch.source_heads.shape == batch.source.shape
    assert collate_ids([[5]], None, [0], [[0]]).source_heads is not None
    assert collate_ids([[5]], [[6]], [0]).source_heads is None


def test_heads_are_read_from_the_store(tmp_path: Path) -> None:
    config = TextConfig(tokenizer="word", byte_fallback=False)
    pair = TokenizerPair.train(config, lambda: [("a b c", "a b c")] * 5)
    data = [Example("a b c", "a", heads=(2, 0, 2)), Example("a", "b c", heads=(0,))]
    store = TokenStore.write(
        tmp_path / "store", data, Numericalizer(pair, max_length=9, long="drop", trees=True)
    )
    batch = collate(store, np.array([1, 0]))
    assert batch.source_heads is not None
    assert batch.source_heads.tolist() == [[0, 0, 0, 0], [2, 0, 2, 0]]
    assert batch.source_heads.dtype == torch.long
