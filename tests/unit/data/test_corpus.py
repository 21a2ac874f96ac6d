"""Data of a run: splits, caching of stores, exact resumption, and reports of dropped lines."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.batching import collate
from seqloom.data.config import DataConfig
from seqloom.data.corpus import Corpus, Prepared, keep_standard_input
from seqloom.data.store import TokenStore
from seqloom.errors import SeqloomError
from seqloom.files import write_json
from seqloom.run.directory import Run
from seqloom.text.config import TextConfig

TEXT = TextConfig(tokenizer="word", byte_fallback=False)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache for each test."""
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"s{i} {i}\tt{i}\n" for i in range(200)))
    return path


def prepare(**data: Any) -> Prepared:
    return Corpus(DataConfig(**data), TEXT).prepare()


def texts(prepared: Prepared, store: TokenStore) -> set[str]:
    return {prepared.tokenizers.source.decode(store.source(i).tolist()) for i in range(len(store))}


def recorded(prepared: Prepared, folder: Path) -> Run:
    """Return a run directory with the files that `reopen` needs."""
    run = Run(folder)
    prepared.tokenizers.save(run.tokenizer_folder)
    run.data_file.write_text(prepared.record.model_dump_json())
    return run


def test_the_parts_are_disjoint_and_complete(table: Path, messages: list[str]) -> None:
    prepared = prepare(train=str(table), valid_share=0.2)
    train, valid = texts(prepared, prepared.train), texts(prepared, prepared.valid)
    assert len(prepared.train) + len(prepared.valid) == 200
    assert 20 <= len(prepared.valid) <= 60
    assert not train & {text for text in valid if "⁇" not in text}
    assert {example.target for example in prepared.valid_examples()} <= {f"t{i}" for i in range(200)}
    assert messages[-1] == "data: 200 of 200 lines kept"


def test_a_source_with_many_targets_is_in_one_part(tmp_path: Path) -> None:
    path = tmp_path / "variants.tsv"
    path.write_text("".join(f"s{i // 4}\tt{i}\n" for i in range(400)))
    prepared = prepare(train=str(path), valid_share=0.3)
    held_out = {example.source for example in prepared.valid_examples()}
    assert len(prepared.valid) == 4 * len(held_out)


def test_at_most_about_valid_max_pairs_are_held_out(table: Path) -> None:
    assert len(prepare(train=str(table), valid_share=0.5, valid_max=10).valid) <= 25


def test_tokenizers_are_not_trained_on_held_out_pairs(table: Path) -> None:
    prepared = prepare(train=str(table), valid_share=0.2)
    pieces = set(prepared.tokenizers.source.pieces(range(prepared.tokenizers.source.size)))
    held_out = [example.source.split()[0] for example in prepared.valid_examples()]
    assert not pieces & set(held_out)


def test_a_validation_file_is_used_completely(table: Path, tmp_path: Path) -> None:
    valid = tmp_path / "valid.tsv"
    valid.write_text("s1 1\tt1\ns2 2\tt2\n")
    prepared = prepare(train=str(table), valid=str(valid))
    assert (len(prepared.train), len(prepared.valid)) == (200, 2)
    assert [example.source for example in prepared.valid_examples()] == ["s1 1", "s2 2"]


def test_a_tiny_corpus_is_validated_on_its_training_pairs(tmp_path: Path, messages: list[str]) -> None:
    path = tmp_path / "tiny.tsv"
    path.write_text("a\tb\nc\td\n")
    prepared = prepare(train=str(path), valid_share=0)
    assert "validation uses the training pairs" in messages[-1]
    assert len(prepared.train) == 2
    assert prepared.valid is prepared.train
    assert [example.source for example in prepared.valid_examples()] == ["a", "c"]


def test_a_store_is_written_once(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare(train=str(table))
    monkeypatch.setattr(TokenStore, "write", None)  # calling it would fail
    again = prepare(train=str(table))
    assert again.train.folder == first.train.folder
    assert again.valid.folder == first.valid.folder


def test_other_data_or_another_limit_gives_another_store(table: Path) -> None:
    first = prepare(train=str(table))
    assert prepare(train=str(table), max_length=9).train.folder != first.train.folder
    table.write_text(table.read_text() + "new\tnew\n")
    assert prepare(train=str(table)).train.folder != first.train.folder


def test_dropped_lines_of_a_cached_store_are_reported_again(tmp_path: Path) -> None:
    path = tmp_path / "long.tsv"
    path.write_text("a\tb\n" * 9 + "a a a a a a\tb\n")
    reports = [prepare(train=str(path), max_length=3).report for _ in range(2)]
    assert [(line.line, line.text) for line in reports[0].lines] == [(10, "a a a a a a\tb")]
    assert reports[0].as_dict() == reports[1].as_dict()
    assert reports[0].kept == 9


def test_reopening_gives_the_same_stores(table: Path, tmp_path: Path) -> None:
    first = prepare(train=str(table), valid_share=0.2)
    run = recorded(first, tmp_path / "run")
    corpus = Corpus(DataConfig(train=(str(table),), valid_share=0.2), TEXT)
    again = corpus.reopen(run.data_record(), run.tokenizers())
    assert (again.train.folder, again.valid.folder) == (first.train.folder, first.valid.folder)
    assert again.tokenizers.fingerprint == first.tokenizers.fingerprint


def test_reopening_without_the_cache_writes_the_same_stores(table: Path, cache: Path, tmp_path: Path) -> None:
    import shutil

    first = prepare(train=str(table), valid_share=0.2)
    run = recorded(first, tmp_path / "run")
    before = {file.name: file.read_bytes() for file in first.train.folder.iterdir()}
    shutil.rmtree(cache)
    again = Corpus(DataConfig(train=(str(table),), valid_share=0.2), TEXT).reopen(
        run.data_record(), run.tokenizers()
    )
    assert {file.name: file.read_bytes() for file in again.train.folder.iterdir()} == before


def test_the_error_for_changed_data_names_the_file(table: Path, tmp_path: Path) -> None:
    run = recorded(prepare(train=str(table)), tmp_path / "run")
    table.write_text(table.read_text().replace("t7\n", "t8\n"))
    with pytest.raises(SeqloomError, match=r"pairs\.tsv has changed since the run"):
        Corpus(DataConfig(train=(str(table),)), TEXT).reopen(run.data_record(), run.tokenizers())


@pytest.mark.parametrize(
    ("content", "fragment"),
    [("", "The data is empty"), ("one\ntwo\nthree\tfour\n", "2 of 3 lines"), ("a a a\tb\n", "1 of 1 lines")],
)
def test_a_corpus_with_mostly_dropped_lines_is_rejected(tmp_path: Path, content: str, fragment: str) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(content)
    with pytest.raises(SeqloomError, match=fragment):
        prepare(train=str(path), max_length=2, valid_share=0)


@pytest.mark.parametrize("suffix", [".npy", ".wav", ".npz#7"])
def test_targets_that_are_feature_files_are_rejected(tmp_path: Path, suffix: str) -> None:
    pairs = [(f"text {i}", f"clips/{i}{suffix}") for i in range(20)]
    table = tmp_path / "a.tsv"
    table.write_text("".join(f"{text}\t{clip}\n" for text, clip in pairs))
    for column, text in enumerate(zip(*pairs, strict=True), 1):
        (tmp_path / f"{column}.txt").write_text("".join(f"{line}\n" for line in text))
    for files in (
        {"train": str(table)},
        {"source": str(tmp_path / "1.txt"), "target": str(tmp_path / "2.txt")},
    ):
        with pytest.raises(SeqloomError, match=r"targets are feature files .*line 1: clips/0"):
            prepare(**files)
    (tmp_path / "b.tsv").write_text("play\tthe file a.wav\nplay it\tnow\n")
    prepare(train=str(tmp_path / "b.tsv"))  # text that ends like a file name, among other text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match=r"Cannot read the data file .*nowhere\.tsv: No such file"):
        prepare(train=str(tmp_path / "nowhere.tsv"))


def test_a_stream_holds_out_the_same_pairs_as_a_store_and_stores_only_its_beginning(table: Path) -> None:
    stored, streamed = (prepare(train=str(table), valid_share=0.2, stream=stream) for stream in (False, True))
    assert texts(stored, stored.valid) == texts(streamed, streamed.valid)
    batches = streamed.batches(batch_tokens=50, seed=1)
    seen: list[str] = []
    for position, batch in batches.collated(0, 0, lambda tokens, indices, place: collate(tokens, indices)):
        if position.epoch:
            break
        rows = zip(batch.source.tolist(), batch.source_lengths.tolist(), strict=True)
        seen += [streamed.tokenizers.source.decode(row[: length - 1]) for row, length in rows]
    assert set(seen) == texts(stored, stored.train) and len(seen) == len(stored.store)
    assert (len(streamed.train), batches.per_epoch) == (200, 200)


def test_a_stream_without_held_out_pairs_is_validated_on_its_beginning(
    table: Path, messages: list[str]
) -> None:
    prepared = prepare(train=str(table), valid_share=0, valid_max=7, stream=True)
    assert [example.source for example in prepared.valid_examples()][:2] == ["s0 0", "s1 1"]
    assert len(prepared.valid) == 7
    assert "validation uses the training pairs" in messages[-1]
    assert messages[-2].endswith(
        "200 of 200 lines kept; lines dropped from the stream are reported after each epoch"
    )


def test_another_mixture_uses_the_same_store(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (str(table), str(table.with_name("more.tsv")))
    table.with_name("more.tsv").write_text("x\ty\n" * 10)
    first = prepare(train=files)
    monkeypatch.setattr(TokenStore, "write", None)  # calling it would fail
    mixed = prepare(train=files, weights=(1, 3), shuffle_buffer=9)
    assert mixed.store.folder == first.store.folder
    assert mixed.mixture is not None and mixed.mixture.sizes == list(mixed.store.files.values())


def test_standard_input_is_stored_under_its_checksum(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "ä\tb\n".encode()
    for _ in range(2):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        kept = Path(keep_standard_input())
        assert kept.read_bytes() == content
        assert kept.parent.parent == cache
        assert kept.stem == hashlib.sha256(content).hexdigest()
    assert len(list(kept.parent.iterdir())) == 1


def test_text_with_noise_has_a_mask_symbol(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"w{i % 7} w{i % 5} w{i % 3}\n" for i in range(60)))
    data = {"train": (str(text),), "format": "text"}
    plain, gaps = prepare(**data), prepare(**data, noise={"kind": "mask"})
    with pytest.raises(SeqloomError, match=r"does not have the symbol \[MASK\]"):
        plain.tokenizers.source.symbol("[MASK]")
    mask = gaps.tokenizers.source.symbol("[MASK]")
    gaps.tokenizers.source.gaps = True  # otherwise [MASK] is ordinary text
    assert gaps.tokenizers.source.encode("w1 [MASK] w2")[1] == mask
    assert gaps.train.source(0).tolist() == [] and len(gaps.train.target(0)) == 3


@pytest.fixture
def sequences(tmp_path: Path) -> Path:
    """Return a table of feature files, one of which does not exist."""
    random = np.random.default_rng(1)
    for i in range(8):
        np.save(tmp_path / f"{i}.npy", random.normal(size=(3 + i, 2)))
    path = tmp_path / "sequences.tsv"
    path.write_text("".join(f"{i}.npy\tt{i % 3}\n" for i in range(9)))
    return path


def prepare_frames(path: Path) -> Corpus:
    text = TextConfig(tokenizer="frames", target_tokenizer="word", byte_fallback=False)
    return Corpus(DataConfig(train=(str(path),), valid=(str(path),)), text)


def test_a_pipe_as_a_feature_file_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")  # reading it would block
    table = tmp_path / "sequences.tsv"
    table.write_text(f"{tmp_path}/pipe.npy\tone\n" * 3)
    with pytest.raises(SeqloomError, match="it is a pipe or a device"):
        prepare_frames(table).prepare()


def test_unreadable_feature_files_are_dropped_from_a_corpus(sequences: Path) -> None:
    prepared = prepare_frames(sequences).prepare()
    assert len(prepared.train) == len(prepared.valid) == 8
    assert prepared.train.features == 2
    assert [example.line for example in prepared.valid_examples()] == list(range(1, 9))
    assert [(line.line, line.reason) for line in prepared.report.lines] == 2 * [
        (9, "unreadable features: the file does not exist")
    ]


def test_the_split_does_not_depend_on_the_location_of_feature_files(
    sequences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TextConfig(tokenizer="frames", target_tokenizer="word", byte_fallback=False)

    def held_out(path: str) -> list[int]:
        data = DataConfig(train=(path,), valid_share=0.5)
        return [e.line for e in Corpus(data, text).prepare().valid_examples()]

    found = held_out(str(sequences))
    assert 0 < len(found) < 8
    monkeypatch.chdir(tmp_path)
    assert held_out(sequences.name) == found
    (tmp_path / "other").mkdir()
    for file in [sequences, *tmp_path.glob("*.npy")]:
        file.rename(tmp_path / "other" / file.name)
    assert held_out(f"other/{sequences.name}") == found


def test_a_resumed_run_detects_a_changed_feature_file(sequences: Path, tmp_path: Path) -> None:
    corpus, run = prepare_frames(sequences), Run(tmp_path / "run")
    prepared = corpus.prepare()
    prepared.tokenizers.save(run.tokenizer_folder)
    write_json(run.data_file, prepared.record.model_dump())
    assert len(corpus.reopen(run.data_record(), run.tokenizers()).train) == 8
    np.save(tmp_path / "3.npy", np.ones((5, 2)))
    with pytest.raises(SeqloomError, match="A file of features in the train data has changed since the run"):
        corpus.reopen(run.data_record(), run.tokenizers())
