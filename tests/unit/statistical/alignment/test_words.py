"""Tests of reading words, one entry per record, and of converting them to ids."""

from __future__ import annotations

import gzip
from pathlib import Path

from seqloom.data.config import DataConfig
from seqloom.data.report import DataReport
from seqloom.statistical.alignment.words import read_words, words_to_ids


def test_every_record_has_an_entry(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress(b"bad\na  b\tc\n\n\nd\t\ne\tf g\nbad\n"))
    report = DataReport()
    words = list(read_words(DataConfig.checked({"train": str(path)}, "data"), report))
    empty: tuple[list[str], list[str]] = ([], [])
    assert words == [empty, (["a", "b"], ["c"]), empty, empty, (["d"], []), (["e"], ["f", "g"]), empty]
    assert report.dropped == 4


def test_ids_by_lower_case_and_first_letters() -> None:
    sentences = [(["The", "the", "then"], ["x"])]
    assert words_to_ids(sentences)[0][0].tolist() == [0, 1, 2]
    assert words_to_ids(sentences, lowercase=True)[0][0].tolist() == [0, 0, 1]
    assert words_to_ids(sentences, lowercase=True, letters=3)[0][0].tolist() == [0, 0, 0]
    assert words_to_ids(sentences, lowercase=True)[0][1].tolist() == [0]
