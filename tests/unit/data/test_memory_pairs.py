"""Pairs in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pytest

from seqloom.data import readers
from seqloom.data.memory_pairs import file_of
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError

PAIRS = [("a house", "ein Haus\n"), ("two\t", "zwei"), ("𝄞 \ud800", "x")]
KEPT = PAIRS[:2]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))


def read(path: object, **columns: str) -> list[tuple[str, str | None]]:
    assert isinstance(path, str)
    return [(e.source, e.target) for e in readers.read(path, report=DataReport(), **columns)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: PAIRS,
        lambda: iter(PAIRS),
        lambda: (list(pair) for pair in PAIRS),
        lambda: [{"target": target, "source": source, "n": 1} for source, target in PAIRS],
        lambda: pandas.DataFrame(KEPT, columns=["english", "german"]),
        lambda: pandas.DataFrame([(2, b, a) for a, b in KEPT], columns=["id", "target", "source"]),
    ],
    ids=["list", "iterator", "generator", "dicts", "two columns", "named columns"],
)
def test_pairs_are_kept_in_a_file(make: Callable[[], Iterable[Any]]) -> None:
    path = file_of(make())
    assert read(path) == KEPT, "the unpaired surrogate is reported by the reader"
    assert file_of(make()) == path, "the same content is the same file"


def test_tables_of_pyarrow() -> None:
    sources, targets = zip(*KEPT, strict=True)
    assert read(file_of(pyarrow.table({"en": list(sources), "de": list(targets)}))) == KEPT


def test_columns_keep_their_names_if_they_are_selected() -> None:
    frame = pandas.DataFrame(KEPT, columns=["english", "german"])
    path = file_of(frame, keep_names=True)
    assert read(path, source_column="german", target_column="english") == [(b, a) for a, b in KEPT]


def test_missing_values_are_malformed_lines() -> None:
    report = DataReport()
    path = file_of(pandas.DataFrame([("a", "b"), ("c", None), ("d", "e")]))
    assert len(list(readers.read(str(path), report=report))) == 2
    assert dict(report.counts) == {"target is not a string": 1}


def test_names_of_files_stay_as_they_are() -> None:
    for files in ("a.tsv", Path("a.tsv"), ["a.tsv", Path("b.tsv")], None):
        assert file_of(files) == files


@pytest.mark.parametrize("data", [[("a", "b", "c")], [("a",)], [1], [("a", "b"), "c"], 3, object()])
def test_what_is_not_pairs_is_an_error(data: Any) -> None:
    with pytest.raises(SeqloomError, match=r"not a pair|neither files nor pairs"):
        file_of(data)
