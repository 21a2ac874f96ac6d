"""Reports of dropped and changed lines."""

import json
from pathlib import Path

import pytest

from seqloom.data.report import LONGEST_TEXT, DataReport, clean
from seqloom.errors import SeqloomError
from seqloom.types import Example


def test_clean_drops_and_reports_empty_sides() -> None:
    report = DataReport(total=4)
    pairs = [("a", "b"), (" ", "b"), ("a", "\t"), ("c", None)]
    examples = [Example(source, target, line, "f") for line, (source, target) in enumerate(pairs, 1)]
    assert [e.line for e in clean(examples, report)] == [1, 4]
    assert report.counts == {"empty source": 1, "empty target": 1}
    assert [(row.line, row.reason, row.text) for row in report.lines] == [
        (2, "empty source", " \tb"),
        (3, "empty target", "a\t\t"),
    ]
    assert (report.kept, report.dropped) == (2, 2)


def test_changed_lines_are_reported_but_kept() -> None:
    report = DataReport(total=1)
    report.change(Example("long", "longer", 7, "f"), "truncated")
    assert (report.kept, report.counts["truncated"], report.lines[0].line) == (1, 1, 7)
    report.raise_if_mostly_dropped()


def test_save_writes_every_line_with_its_reason(tmp_path: Path) -> None:
    report = DataReport(total=3)
    report.drop(Example("ü\u2028", "b", 2, "f.tsv"), "too long")
    report.save(tmp_path / "data-report.json")
    assert json.loads((tmp_path / "data-report.json").read_text(encoding="utf-8")) == {
        "total": 3,
        "kept": 2,
        "dropped": 1,
        "counts": {"too long": 1},
        "lines": [
            {
                "file": "f.tsv",
                "line": 2,
                "reason": "too long",
                "text": "ü\u2028\tb",
                "dropped": True,
                "skipped": False,
            }
        ],
    }
    assert DataReport.load(tmp_path / "data-report.json") == report
    assert [path.name for path in tmp_path.iterdir()] == ["data-report.json"]


def test_the_first_lines_of_each_reason_are_listed_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.data.report.LISTED", 2)
    report = DataReport(total=20)
    for line in range(5):
        report.drop(Example("a", "b", line, "f"), "too long")
        report.change(Example("a", "b", line, "f"), "cut")
    assert [(row.reason, row.line) for row in report.lines] == [
        ("too long", 0),
        ("cut", 0),
        ("too long", 1),
        ("cut", 1),
    ]
    report.save(tmp_path / "report.json")
    loaded = DataReport.load(tmp_path / "report.json")
    assert loaded == report and (loaded.kept, loaded.drops) == (15, {"too long": 5})
    report.add(loaded)
    assert (report.total, report.dropped, report.counts) == (40, 10, {"too long": 10, "cut": 10})


def test_a_very_long_text_ends_with_an_ellipsis() -> None:
    report = DataReport(total=1)
    report.drop(Example("x" * (LONGEST_TEXT + 1), line=1, file="f"), "too long")
    assert report.lines[0].text == "x" * (LONGEST_TEXT - 1) + "…"


def test_summary_counts_by_reason() -> None:
    report = DataReport(total=1000)
    assert report.summary() == "1,000 of 1,000 lines kept"
    for line in (1, 2):
        report.drop(Example("", "b", line, "f"), "empty source")
    assert report.summary() == "998 of 1,000 lines kept (2 empty source)"


def test_the_summary_is_short_with_many_reasons() -> None:
    report = DataReport(total=100)
    for line in range(30):
        report.drop(Example("a", "b", line, "f"), f"reason {line}")
    assert report.summary().endswith("1 reason 3, 26 for other reasons)")
    assert len(report.as_dict()["counts"]) == 30


def test_at_most_half_of_the_lines_may_be_dropped() -> None:
    report = DataReport(total=4)
    for line in range(5):  # more frequent than any reason for dropping, but not one of them
        report.change(Example("z", "z", line, "f"), "truncated")
    report.drop(Example("x", line=1, file="f"), "too few columns")
    report.drop(Example("", "y", 2, "f"), "empty source")
    report.raise_if_mostly_dropped()
    report.drop(Example("z", line=3, file="f"), "too few columns")
    with pytest.raises(SeqloomError, match=r"3 of 4 lines .* too few columns \(first in f, line 1: 'x'\)"):
        report.raise_if_mostly_dropped()


def test_empty_data_is_rejected() -> None:
    with pytest.raises(SeqloomError, match="The data is empty"):
        DataReport().raise_if_mostly_dropped()
