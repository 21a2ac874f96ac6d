"""Frames in the store and in batches: complete, without an end symbol, with reports of dropped files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data import encoding
from seqloom.data.batching import BatchStream, collate, collate_ids, padding
from seqloom.data.encoding import Numericalizer
from seqloom.data.store import TokenStore
from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import EOS, Example

LENGTHS = (5, 2, 9, 1, 7, 3)


@pytest.fixture
def examples(tmp_path: Path) -> list[Example]:
    """Write sequences with 4 features per step; the text of file n has n words."""
    random = np.random.default_rng(1)
    found = []
    for number, length in enumerate(LENGTHS):
        path = tmp_path / f"{number}.npy"
        np.save(path, random.normal(size=(length, 4)))
        found.append(Example(str(path), " ".join(["w"] * (number + 1)), number + 1, "pairs.tsv"))
    return found


@pytest.fixture
def pair(examples: list[Example]) -> TokenizerPair:
    config = TextConfig(tokenizer="frames", target_tokenizer="word", byte_fallback=False)
    return TokenizerPair.train(config, lambda: [(e.source, e.target or "") for e in examples])


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_CHUNK_OF_FRAMES", 4)


def write(folder: Path, data: Any, pair: TokenizerPair, **options: Any) -> TokenStore:
    plain: dict[str, Any] = {"max_length": 100, "max_frames": 100, "long": "drop", "threads": 1}
    return TokenStore.write(folder, data, Numericalizer(pair, **{**plain, **options}))


def reported(store: TokenStore) -> list[tuple[int, str, bool]]:
    return [(line.line, line.reason, line.dropped) for line in store.report.lines]


def test_frames_round_trip(tmp_path: Path, examples: list[Example], pair: TokenizerPair) -> None:
    write(tmp_path / "store", examples, pair)
    store = TokenStore.open(tmp_path / "store")
    assert (len(store), store.features, store.token_counts["source"]) == (6, 4, sum(LENGTHS))
    for i, example in enumerate(examples):
        assert np.array_equal(store.source(i), pair.reader.encode(example.source))
        assert store.target(i).tolist() == pair.target.encode(example.target or "")
    assert store.source(0).dtype == np.float32
    assert [length.tolist() for length in store.lengths(1, 4)] == [[2, 9, 1], [2, 3, 4]]


def test_unreadable_files_are_dropped_with_a_reason(
    tmp_path: Path, examples: list[Example], pair: TokenizerPair
) -> None:
    np.save(tmp_path / "wide.npy", np.zeros((3, 5)))
    np.save(tmp_path / "none.npy", np.zeros((0, 4)))
    bad = [
        Example(str(tmp_path / "gone.wav"), "w", 7, "pairs.tsv"),
        Example(str(tmp_path / "wide.npy"), "w", 8, "pairs.tsv"),
        Example(str(tmp_path / "none.npy"), "w", 9, "pairs.tsv"),
    ]
    store = write(tmp_path / "store", [*bad, *examples], pair)
    assert len(store) == 6
    assert np.array_equal(store.source(0), pair.reader.encode(examples[0].source))
    assert [(line, reason) for line, reason, _ in reported(store)] == [
        (7, "unreadable features: the file does not exist"),
        (8, "unreadable features: it has 5 features per frame; the training data has 4"),
        (9, "source has no frames"),
    ]


def test_frames_have_a_separate_limit(tmp_path: Path, examples: list[Example], pair: TokenizerPair) -> None:
    dropped = write(tmp_path / "dropped", examples, pair, max_frames=6, max_length=5)
    assert reported(dropped) == [
        (3, "source longer than data.max_frames=6 frames", True),
        (5, "source longer than data.max_frames=6 frames", True),
        (6, "target longer than data.max_length=5 tokens", True),
    ]
    cut = write(tmp_path / "cut", examples, pair, max_frames=6, max_length=5, long="truncate")
    assert [reason for _, reason, _ in reported(cut)][:1] == ["source truncated to data.max_frames=6 frames"]
    assert np.array_equal(cut.source(2), pair.reader.encode(examples[2].source)[:6])
    assert len(cut.target(5)) == 5
    message = r"line 3: the source has 9 frames, more than data\.max_frames=6"
    with pytest.raises(SeqloomError, match=message) as caught:
        write(tmp_path / "error", examples, pair, max_frames=6, long="error")
    assert caught.value.hint.startswith("increase data.max_frames,")


def test_a_batch_of_frames_is_padded_with_zeros_and_has_no_end_symbol(
    tmp_path: Path, examples: list[Example], pair: TokenizerPair
) -> None:
    store = write(tmp_path / "store", examples, pair)
    batch = collate(store, np.array([3, 0, 1]))
    assert batch.source.shape == (3, 5, 4) and batch.source.dtype == torch.float32
    assert batch.source_lengths.tolist() == [1, 5, 2]
    assert np.array_equal(batch.source[2, :2].numpy(), store.source(1))
    assert not batch.source[~batch.source_mask].any()
    assert batch.target_out is not None and batch.target_out[1, 1] == EOS
    again = collate_ids([store.source(i) for i in (3, 0, 1)], [store.target(i) for i in (3, 0, 1)], [3, 0, 1])
    assert torch.equal(again.source, batch.source) and torch.equal(again.source_lengths, batch.source_lengths)
    assert padding(batch) == pytest.approx((8 + 10) / (15 + 15))


def test_batches_of_frames_stay_within_the_budget(
    tmp_path: Path, examples: list[Example], pair: TokenizerPair
) -> None:
    store = write(tmp_path / "store", examples, pair)
    batches = list(BatchStream(store, batch_tokens=10, seed=1).epoch(0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(6))
    made = [collate(store, indices) for indices in batches]
    assert all(batch.source.shape[0] * batch.source.shape[1] <= 10 for batch in made)
    # Nine frames, and two times five: with an end symbol for each, they would exceed the budget.
    exactly = BatchStream(write(tmp_path / "two", [examples[0]] * 2, pair), batch_tokens=10, seed=1)
    assert [len(indices) for indices in exactly.epoch(0)] == [2]
