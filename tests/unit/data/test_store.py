"""Token store: round trips, reports of dropped lines, atomic writing and detection of damage."""

from __future__ import annotations

import errno
import functools
import json
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data import encoding
from seqloom.data.encoding import Numericalizer
from seqloom.data.report import DataReport
from seqloom.data.store import Tokens, TokenStore, cache_key
from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import Example


@functools.cache
def tokenizers(words: int = 50) -> TokenizerPair:
    config = TextConfig(tokenizer="word", byte_fallback=False, vocab_size=100_000)
    return TokenizerPair.train(config, lambda: [(f"w{i}", f"w{i}") for i in range(words)])


def examples(count: int) -> list[Example]:
    """Return pairs of 1 to 7 source and 1 to 5 target words."""
    return [
        Example(
            " ".join(f"w{j}" for j in range(1 + i % 7)), " ".join(f"w{i % 50}" for _ in range(1 + i % 5)), i
        )
        for i in range(count)
    ]


def write(folder: Path, data: Any, **options: Any) -> TokenStore:
    plain: dict[str, Any] = {"max_length": 100, "long": "drop", "threads": 2}
    pair, heard = options.pop("tokenizers", tokenizers()), options.pop("on_progress", None)
    return TokenStore.write(folder, data, Numericalizer(pair, **{**plain, **options}), on_progress=heard)


def reported(store: TokenStore) -> list[tuple[int, str]]:
    return [(line.line, line.reason) for line in TokenStore.open(store.folder).report.lines]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_CHUNK", 7)


def test_pairs_round_trip(tmp_path: Path) -> None:
    data, pair = examples(50), tokenizers()
    write(tmp_path / "store", iter(data))
    store = TokenStore.open(tmp_path / "store")
    assert len(store) == 50
    for i, example in enumerate(data):
        assert store.source(i).tolist() == pair.source.encode(example.source)
        assert store.target(i).tolist() == pair.target.encode(example.target or "")
    source, target = store.lengths(10, 20)
    assert source.tolist() == [1 + i % 7 for i in range(10, 20)]
    assert target.tolist() == [1 + i % 5 for i in range(10, 20)]
    assert store.token_counts == {"source": sum(1 + i % 7 for i in range(50)), "target": 150}


def test_ids_have_two_or_four_bytes(tmp_path: Path) -> None:
    small = write(tmp_path / "small", examples(5))
    large = write(tmp_path / "large", [Example("w65999", "w0")], tokenizers=tokenizers(66_000))
    assert small.source(0).dtype == np.dtype("<u2")
    assert large.source(0).dtype == np.dtype("<u4")
    assert tokenizers(66_000).source.decode(large.source(0)) == "w65999"


def test_the_store_does_not_depend_on_threads_or_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", examples(50), threads=1)
    monkeypatch.setattr(encoding, "_CHUNK", 20_000)
    write(tmp_path / "b", examples(50), threads=3)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["data-report.json", "meta.json", "source.bin", "source.idx", "target.bin", "target.idx"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


LONG = [Example("w1", "w1", 1), Example("w1 w2 w3", "w1", 2), Example("w1", "w1 w2 w3 w4", 3)]


def test_long_pairs_are_dropped_and_reported(tmp_path: Path) -> None:
    store = write(tmp_path / "store", LONG, max_length=2)
    assert len(store) == 1
    assert reported(store) == [
        (2, "source longer than data.max_length=2 tokens"),
        (3, "target longer than data.max_length=2 tokens"),
    ]
    assert store.report.dropped == 2


def test_long_pairs_are_truncated_and_reported(tmp_path: Path) -> None:
    store = write(tmp_path / "store", LONG, max_length=2, long="truncate")
    assert [len(store.source(i)) for i in range(3)] == [1, 2, 1]
    assert [len(store.target(i)) for i in range(3)] == [1, 1, 2]
    assert reported(store) == [
        (2, "source truncated to data.max_length=2 tokens"),
        (3, "target truncated to data.max_length=2 tokens"),
    ]
    assert store.report.dropped == 0


def test_the_error_for_a_long_pair_names_the_line(tmp_path: Path) -> None:
    data = [Example("w1", "w1", 1, "a.tsv"), Example("w1 w2 w3", "w1", 2, "a.tsv")]
    with pytest.raises(
        SeqloomError, match=r"^a\.tsv, line 2: the source has 3 tokens, more than data.max_length=2"
    ):
        write(tmp_path / "store", data, max_length=2, long="error")
    assert list(tmp_path.iterdir()) == []


def test_pairs_without_tokens_are_dropped_and_reported(tmp_path: Path) -> None:
    data = [Example("  ", "w1", 1), Example("w1", "", 2), Example("  ", None, 3), Example("w2", "w2", 4)]
    store = write(tmp_path / "store", data)
    assert len(store) == 1
    assert reported(store) == [
        (1, "source has no tokens"),
        (2, "target has no tokens"),
        (3, "text has no tokens"),
    ]


def test_a_text_is_a_target_without_a_source(tmp_path: Path) -> None:
    store = write(tmp_path / "store", [Example("w1 w2", None, 1), Example("w3 " * 101, None, 2)])
    assert (store.source(0).tolist(), len(store.target(0))) == ([], 2)
    assert reported(store) == [(2, "text longer than data.max_length=100 tokens")]


def test_a_store_may_be_empty(tmp_path: Path) -> None:
    write(tmp_path / "store", [])
    store = TokenStore.open(tmp_path / "store")
    assert len(store) == 0
    assert store.lengths(0, 0)[0].tolist() == []


def test_progress_counts_the_examples_read(tmp_path: Path) -> None:
    heard: list[int] = []
    write(tmp_path / "store", examples(20), on_progress=heard.append)
    assert heard == [7, 7, 6]


def test_a_failure_keeps_the_old_store_and_leaves_no_other_files(tmp_path: Path) -> None:
    def failing() -> Iterator[Example]:
        yield from examples(30)
        raise RuntimeError("the reader failed")

    write(tmp_path / "store", examples(3))
    with pytest.raises(RuntimeError, match="the reader failed"):
        write(tmp_path / "store", failing())
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert len(TokenStore.open(tmp_path / "store")) == 3


def test_writing_again_replaces_the_store(tmp_path: Path) -> None:
    write(tmp_path / "store", examples(3))
    assert len(write(tmp_path / "store", examples(9))) == 9


def test_a_missing_store_is_not_complete(tmp_path: Path) -> None:
    assert not TokenStore.is_complete(tmp_path / "none")
    with pytest.raises(SeqloomError, match="none is incomplete or damaged"):
        TokenStore.open(tmp_path / "none")


@pytest.mark.parametrize("name", ["source.bin", "target.bin", "source.idx", "target.idx", "meta.json"])
@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_damaged_store_is_detected(name: str, damage: str, tmp_path: Path) -> None:
    write(tmp_path / "store", examples(20))
    assert TokenStore.is_complete(tmp_path / "store")
    path = tmp_path / "store" / name
    path.unlink() if damage == "missing" else path.write_bytes(path.read_bytes()[:-1])
    assert not TokenStore.is_complete(tmp_path / "store")
    with pytest.raises(SeqloomError, match="store is incomplete or damaged") as caught:
        TokenStore.open(tmp_path / "store")
    assert "delete the folder" in caught.value.hint


@pytest.mark.parametrize(
    "name", ["source.bin", "target.bin", "source.idx", "target.idx", "meta.json", "data-report.json"]
)
def test_one_changed_bit_is_detected(name: str, tmp_path: Path) -> None:
    write(tmp_path / "store", examples(20))
    assert TokenStore.is_sound(tmp_path / "store")
    content = bytearray((tmp_path / "store" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "store" / name).write_bytes(content)
    assert not TokenStore.is_sound(tmp_path / "store")


def test_a_store_without_checksums_is_not_sound(tmp_path: Path) -> None:
    write(tmp_path / "store", examples(20))
    meta = tmp_path / "store" / "meta.json"
    values = json.loads(meta.read_text(encoding="utf-8"))
    meta.write_text(json.dumps({name: values[name] for name in values if name not in ("sha256", "seal")}))
    assert not TokenStore.is_sound(tmp_path / "store")


def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        SeqloomError, match=r"Cannot write the token store .*: No space left on device"
    ) as caught:
        write(tmp_path / "store", examples(20))
    assert "SEQLOOM_CACHE" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_store_records_its_tokenizers(tmp_path: Path) -> None:
    write(tmp_path / "store", examples(3))
    meta = json.loads((tmp_path / "store" / "meta.json").read_text(encoding="utf-8"))
    assert meta["tokenizers"] == tokenizers().fingerprint


def test_a_store_records_the_number_of_pairs_per_file(tmp_path: Path) -> None:
    data = [Example("w1 " * (1 + i % 3), "w1", i, file) for file in ("b.tsv", "a.tsv") for i in range(20)]
    assert list(write(tmp_path / "store", data, max_length=2).files.items()) == [("b.tsv", 14), ("a.tsv", 14)]


def resident_pages() -> int:
    """Return the resident memory of mapped files of this process in kilobytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("RssFile:")[1].split()[0])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_released_pages_are_freed_and_can_be_read_again(tmp_path: Path) -> None:
    text = " ".join(f"w{number % 50}" for number in range(50_000))
    store = write(tmp_path / "store", [Example(text, "w1", line) for line in range(80)], max_length=10**6)
    before = resident_pages()
    total = int(store.ids["source"].sum())
    read = resident_pages()
    store.release_pages()
    assert read - before > 6000 and resident_pages() - before < 1000  # 80 rows of 50,000 in two bytes
    assert int(store.ids["source"].sum()) == total


def test_tokens_in_memory_equal_those_of_the_store(tmp_path: Path) -> None:
    store, report = write(tmp_path / "store", examples(30), max_length=4), DataReport()
    tokens = Tokens.of(examples(30), Numericalizer(tokenizers(), max_length=4, long="drop"), report)
    assert len(tokens) == len(store) < 30 and report == store.report
    for side in ("source", "target"):
        assert tokens.ids[side].tolist() == store.ids[side].tolist()
        assert tokens.ids[side].dtype == store.ids[side].dtype
        assert tokens.offsets[side].tolist() == store.offsets[side].tolist()
    assert len(Tokens.of([], Numericalizer(tokenizers(), max_length=4, long="drop"), report)) == 0


def test_rows_are_views_of_the_file(tmp_path: Path) -> None:
    store = write(tmp_path / "store", examples(3))
    assert np.shares_memory(store.source(1), store.ids["source"])
    assert isinstance(store.ids["source"].base, memoryview | mmap.mmap)
    assert not store.source(1).flags.writeable


def test_the_cache_key_distinguishes_its_parts() -> None:
    assert cache_key("ab", "c") != cache_key("a", "bc")
    assert cache_key("a", "b") == cache_key("a", "b")
    assert len(cache_key()) == 64


# Trees


def test_heads_of_words_become_heads_of_tokens(tmp_path: Path) -> None:
    data = [Example("w1 w2 w3", "w1", 1, heads=(2, 0, 2)), Example("w4", "w2 w3", 2, heads=(0,))]
    store = write(tmp_path / "store", data, trees=True)
    assert store._row("heads", 0).tolist() == [2, 0, 2]
    assert store._row("heads", 1).tolist() == [0]
    assert store.target(1).tolist() == tokenizers().target.encode("w2 w3")
    assert "heads" not in write(tmp_path / "other", data).ids


def test_trees_are_truncated_with_their_source_and_invalid_ones_are_reported(tmp_path: Path) -> None:
    data = [
        Example("w1 w2 w3 w4", "w1", 1, heads=(3, 1, 0, 3)),
        Example("w1 unseen unknown", "w1", 2, heads=(2, 0, 2)),  # adjacent unknown words are one token
        Example("w1", "w2", 3, heads=(0,)),
    ]
    store = write(tmp_path / "store", data, trees=True, max_length=2, long="truncate")
    assert [store._row("heads", i).tolist() for i in range(len(store))] == [[0, 1], [0]]
    assert reported(store) == [
        (2, "the number of heads differs from the number of tokenised words"),
        (1, "source truncated to data.max_length=2 tokens"),
    ]
