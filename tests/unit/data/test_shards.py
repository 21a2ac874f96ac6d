"""Expansion of files, folders and patterns in data options, in a fixed order."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from seqloom.data.config import DataConfig
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport
from seqloom.data.shards import Shard, corpora, files
from seqloom.errors import SeqloomError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create tables, one compressed and one in a subfolder, and files that are not tables."""
    (tmp_path / "below").mkdir()
    for name in ("b.tsv", "a.tsv", "below/c.tsv"):
        (tmp_path / name).write_text(f"{name}\tx\n")
    (tmp_path / "z.tsv.gz").write_bytes(gzip.compress(b"z.tsv.gz\tx\n"))
    for name in ("README.md", ".hidden.tsv", "trees.conllu"):
        (tmp_path / name).write_text("no table\n")
    return tmp_path


def names(found: list[str], folder: Path) -> list[str]:
    return [str(Path(file).relative_to(folder)) for file in found]


def test_a_folder_expands_to_its_tables_in_order(folder: Path) -> None:
    assert names(files(str(folder), "auto"), folder) == ["a.tsv", "b.tsv", "z.tsv.gz"]


def test_with_a_format_a_folder_expands_to_all_its_files(folder: Path) -> None:
    found = names(files(str(folder), "tsv"), folder)
    assert found == ["README.md", "a.tsv", "b.tsv", "trees.conllu", "z.tsv.gz"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.tsv", ["a.tsv", "b.tsv"]),
        ("?.tsv*", ["a.tsv", "b.tsv", "z.tsv.gz"]),
        ("**/*.tsv", ["a.tsv", "b.tsv", "below/c.tsv"]),
        ("*", ["README.md", "a.tsv", "b.tsv", "trees.conllu", "z.tsv.gz"]),
    ],
)
def test_a_pattern_expands_to_its_files_in_order(folder: Path, pattern: str, expected: list[str]) -> None:
    assert names(files(str(folder / pattern), "auto"), folder) == expected


def test_an_existing_file_is_never_a_pattern(folder: Path) -> None:
    odd = folder / "[odd]*.tsv"
    odd.write_text("a\tb\n")
    for name in (str(odd), str(folder / "missing.tsv"), "-", "x" * 5000):
        assert files(name, "auto") == [name]


def test_an_invalid_file_name_is_an_error() -> None:
    for name in ("x" * 5000, "x" * 5000 + "*"):
        with pytest.raises(SeqloomError, match=r"Cannot read .*: File name too long|No file matches"):
            list(read_corpus(DataConfig(train=[name], format="tsv"), "train", DataReport()))


@pytest.mark.parametrize(
    ("name", "format", "fragment"),
    [
        ("*.parquet", "auto", r"No file matches .*\*\.parquet"),
        ("empty", "auto", r"The folder .*empty contains no tables or translation units"),
        ("empty", "text", r"The folder .*empty contains no files"),
    ],
)
def test_no_match_is_an_error(folder: Path, name: str, format: str, fragment: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(SeqloomError, match=fragment):
        files(str(folder / name), format)  # type: ignore[arg-type]


def test_each_entry_is_a_corpus(folder: Path) -> None:
    config = DataConfig(train=(str(folder / "?.tsv"), str(folder / "below")))
    first, second = corpora(config, "train")
    assert [Path(shard.file).name for shard in first] == ["a.tsv", "b.tsv"]
    assert [Path(shard.file).name for shard in second] == ["c.tsv"]
    read = [example.source for example in read_corpus(config, "train", DataReport())]
    assert read == ["a.tsv", "b.tsv", "below/c.tsv"]
    assert corpora(config, "valid") == []


def test_aligned_shards_are_paired_by_name(tmp_path: Path) -> None:
    for name, text in (("1.en", "one\n"), ("2.en", "two\n"), ("1.de", "eins\n"), ("2.de", "zwei\n")):
        (tmp_path / name).write_text(text)
    config = DataConfig(source=str(tmp_path / "*.en"), target=str(tmp_path / "*.de"))
    (shards,) = corpora(config, "train")
    assert shards[0] == Shard(str(tmp_path / "1.en"), str(tmp_path / "1.de"))
    read = [(example.source, example.target) for example in read_corpus(config, "train", DataReport())]
    assert read == [("one", "eins"), ("two", "zwei")]
    (tmp_path / "2.de").unlink()
    with pytest.raises(SeqloomError, match=r"\*\.en matches 2 files, but .*\*\.de matches 1"):
        corpora(config, "train")
