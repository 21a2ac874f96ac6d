"""The journal of finished chunks: what an interruption leaves behind is used again, and nothing else."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from seqloom.distillation.journal import Journal
from seqloom.errors import SeqloomError

SETTINGS = {"run": "runs/x", "search": {"beam": 5}, "tag": None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of a journal with two chunks."""
    journal = Journal(tmp_path / "work", SETTINGS)
    journal.append(["a", "ä\n"])
    journal.append([["c", "loop"]])
    return journal.path


def test_chunks_are_read_in_the_order_in_which_they_were_added(path: Path) -> None:
    journal = Journal(path, SETTINGS)
    assert (journal.items, list(journal)) == (3, [["a", "ä\n"], [["c", "loop"]]])
    assert list(journal.results()) == ["a", "ä\n", ["c", "loop"]]


def test_there_is_no_file_before_the_first_chunk(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "work", SETTINGS)
    assert (journal.items, list(journal), journal.path.exists()) == (0, [], False)


@pytest.mark.parametrize("length", range(1, 16))
def test_a_chunk_that_was_cut_off_is_removed(path: Path, length: int) -> None:
    complete = path.read_bytes()
    path.write_bytes(complete[:-length])  # the last line has 15 bytes and a line end
    journal = Journal(path, SETTINGS)
    assert list(journal) == [["a", "ä\n"]]
    journal.append([["c", "loop"]])
    assert path.read_bytes() == complete


def test_other_settings_are_an_error_that_names_them(path: Path) -> None:
    with pytest.raises(SeqloomError, match="search, tag") as caught:
        Journal(path, {**SETTINGS, "search": {"beam": 4}, "tag": "<bt>"})
    assert f"remove {path}" in caught.value.hint


def test_settings_that_json_cannot_hold_are_the_same_after_reading(tmp_path: Path) -> None:
    settings = {"tuple": (1, 2), "infinite": math.inf}
    Journal(tmp_path / "work", settings).append(["a"])
    assert Journal(tmp_path / "work", settings).items == 1


@pytest.mark.parametrize(("line", "content"), [(1, b"[]\n"), (1, b""), (2, b'{"settings": {}}\n{"a": 1}\n')])
def test_a_damaged_file_is_an_error_that_names_the_line(tmp_path: Path, line: int, content: bytes) -> None:
    file = tmp_path / "work"
    file.write_bytes(content)
    with pytest.raises(SeqloomError, match=f"damaged at line {line}"):
        Journal(file, {})
