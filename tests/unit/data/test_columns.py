"""Headers, delimiters, and default columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom.data.columns import delimiter
from seqloom.data.config import DataConfig
from seqloom.data.readers import check_has_columns, check_tables, check_targets_are_text, read, read_source
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError

TICKETS = "id,english,german\n7,Where is it?,Wo ist es?\n8,Thanks.,Danke.\n"
PAIRS = [("Where is it?", "Wo ist es?"), ("Thanks.", "Danke.")]

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: str) -> str:
        (tmp_path / name).write_text(content, encoding="utf-8")
        return str(tmp_path / name)

    return write_file


def pairs(path: str, source: str | None = None, target: str | None = None) -> list[tuple[str, str | None]]:
    examples = read(path, source_column=source, target_column=target, report=DataReport())
    return [(example.source, example.target) for example in examples]


def sources(path: str, source: str | None = None, prefix: str | None = None) -> list[str]:
    examples = read_source(path, source_column=source, prefix_column=prefix, report=DataReport())
    return [example.source for example in examples]


# Columns


def test_more_than_two_columns_must_be_selected(write: Write) -> None:
    with pytest.raises(SeqloomError, match=r"tickets\.csv has 3 columns \(id, english, german\)") as raised:
        pairs(write("tickets.csv", TICKETS))
    assert "--source-column english --target-column german" in raised.value.hint
    with pytest.raises(SeqloomError, match="the target column is ambiguous") as raised:
        pairs(write("tickets.csv", TICKETS), "english")
    assert "--target-column german" in raised.value.hint
    with pytest.raises(SeqloomError, match="the source column is ambiguous") as raised:
        sources(write("tickets.csv", TICKETS))
    assert pairs(write("tickets.csv", TICKETS), "english", "german") == PAIRS
    assert sources(write("tickets.csv", TICKETS), "german") == [german for _, german in PAIRS]


def test_an_error_without_a_header_shows_numbers_and_cells(write: Write) -> None:
    path = write("a.tsv", "lemma one\tx\t" + "y" * 80 + "\n")
    with pytest.raises(SeqloomError, match="1: lemma one, 2: x, 3: yyy") as raised:
        pairs(path)
    assert "--source-column 1 --target-column 2" in raised.value.hint
    assert "if the first row is a header" in raised.value.hint
    assert "y" * 40 not in raised.value.message
    assert pairs(path, "1", "2") == [("lemma one", "x")]
    assert sources(path) == ["lemma one"]


def test_columns_called_source_and_target_are_the_default(write: Write) -> None:
    path = write("a.csv", "id,Target,Source\n7,b,a\n")
    assert pairs(path) == [("a", "b")]
    assert sources(path) == ["a"]
    with pytest.raises(SeqloomError, match="same column"):
        pairs(path, "Source", "Source")


def test_with_two_columns_the_other_one_is_the_default(write: Write) -> None:
    path = write("a.csv", "english,german\na,b\n")
    assert pairs(path) == pairs(path, "english") == pairs(path, None, "german") == [("a", "b")]
    assert pairs(path, "german") == pairs(path, "2") == [("b", "a")]
    assert sources(path) == ["a"]
    assert sources(path, prefix="english") == ["b"]


def test_columns_with_other_roles_are_not_candidates(write: Write) -> None:
    path = write("a.tsv", "dogs bark\tHunde bellen\t2 0\n")
    [example] = read(path, heads_column="3", report=DataReport())
    assert (example.source, example.target, example.heads) == ("dogs bark", "Hunde bellen", (2, 0))
    assert sources(path, prefix="2") == ["dogs bark"]
    check_targets_are_text(DataConfig(train=(path,), heads_column="3"))  # uses the same columns
    [example] = read(path, target_column="2,3", report=DataReport())
    assert (example.source, example.target, example.columns) == ("dogs bark", "Hunde bellen", {"3": "2 0"})


@pytest.mark.parametrize(
    "name, content", [("a.tsv", "en\tde\na\tb\n"), ("a.jsonl", '{"en": "a", "de": "b"}\n')]
)
@pytest.mark.parametrize("source, target", [("en", "en"), ("en", "de,en")])
def test_source_and_target_must_differ(write: Write, name: str, content: str, source: str, target: str) -> None:
    with pytest.raises(SeqloomError, match="same column"):
        pairs(write(name, content), source, target)


def test_a_name_and_a_number_of_the_same_column_are_rejected(write: Write) -> None:
    with pytest.raises(SeqloomError, match=r"same column.*english"):
        pairs(write("tickets.csv", TICKETS), "english", "2")


@pytest.mark.parametrize("column", ["7", "99", "nothing"])
@pytest.mark.parametrize(
    "name, content", [("a.tsv", "a\tb\nc\td\n"), ("a.csv", "a,b\n"), ("a.jsonl", '{"source": "a"}\n')]
)
def test_a_missing_column_is_an_error(write: Write, name: str, content: str, column: str) -> None:
    path = write(name, content)
    with pytest.raises(SeqloomError, match=f"has no column '{column}'"):
        sources(path, column)
    with pytest.raises(SeqloomError, match=f"has no column '{column}'"):
        pairs(path, column)


def test_a_title_line_or_a_stray_tab_does_not_change_the_columns(write: Write) -> None:
    rows = "".join(f"a{i}\tb{i}\n" for i in range(5))
    assert len(pairs(write("a.tsv", f"My corpus\n{rows}"))) == 5
    assert len(pairs(write("b.tsv", f"{rows}x\ty\tz\n"))) == 6
    assert pairs(write("c.tsv", f"My corpus\n{rows}"), "1", "2") == pairs(write("d.tsv", rows))


def test_the_error_for_a_missing_key_lists_the_keys(write: Write) -> None:
    with pytest.raises(SeqloomError, match="no column 'source'; its columns are: id, en, de"):
        pairs(write("a.jsonl", '{"id": 7, "en": "a", "de": "b"}\n'))


def test_parquet_columns_follow_the_same_rules(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def write(**columns: str) -> str:
        table = pyarrow.table({name: [cell] for name, cell in columns.items()})
        parquet.write_table(table, tmp_path / "a.parquet")
        return str(tmp_path / "a.parquet")

    with pytest.raises(SeqloomError, match=r"has 3 columns \(id, en, de\)"):
        pairs(write(id="7", en="a", de="b"))
    assert pairs(write(id="7", target="b", source="a")) == [("a", "b")]
    assert pairs(write(en="a", de="b"), "de") == [("b", "a")]
    assert sources(write(en="a", de="b")) == ["a"]
    with pytest.raises(SeqloomError, match="same column"):
        pairs(write(en="a", de="b"), "de", "2")
    with pytest.raises(SeqloomError, match="no column 'target'"):
        pairs(write(en="a"))


# Headers


@pytest.mark.parametrize(
    "header", ["en,de", "English,German", "src,tgt", " question , Answer", "source_text,target_text"]
)
def test_known_names_form_a_header(write: Write, header: str) -> None:
    assert pairs(write("a.csv", f"{header}\na,b\n")) == [("a", "b")]


@pytest.mark.parametrize("row", ["hello,hallo", "text,Text", "en,hallo", "source", "Wort,word", ",en"])
def test_any_other_first_row_is_data(write: Write, row: str) -> None:
    path = write("a.csv", f"{row}\na,b\n")
    assert sources(path) == [row.split(",")[0], "a"]


def test_a_header_may_have_an_empty_name_for_row_numbers(write: Write) -> None:
    path = write("a.csv", ",english,german\n0,a,b\n")
    with pytest.raises(SeqloomError, match="has 3 columns") as raised:
        pairs(path)
    assert "--source-column english" in raised.value.hint
    assert pairs(path, "english", "german") == [("a", "b")]


def test_with_numbered_columns_known_names_are_data(write: Write) -> None:
    assert pairs(write("a.tsv", "is\tes\na\tb\n"), "1", "2") == [("is", "es"), ("a", "b")]


def test_a_row_above_numbers_in_an_unused_column_is_a_header(write: Write) -> None:
    assert pairs(write("tickets.csv", TICKETS), "2", "3") == PAIRS
    unusual = write("a.csv", TICKETS.replace("id,english,german", "Nr.,Anfrage,Reaktion"))
    assert pairs(unusual, "2", "3") == PAIRS
    assert sources(unusual, "2") == [english for english, _ in PAIRS]
    with pytest.raises(SeqloomError, match=r"\(Nr\., Anfrage, Reaktion\), so the source"):
        sources(unusual)
    assert sources(write("b.tsv", "text\tscore\na\t0.5\nb\t-1\n"), "1") == ["a", "b"]


@pytest.mark.parametrize("first", ["many,viele", "1,eins"])
def test_numbers_in_a_selected_column_do_not_imply_a_header(write: Write, first: str) -> None:
    path = write("a.csv", f"{first}\n2,zwei\n3,drei\n")
    for source, target in ((None, None), ("1", None), ("1", "2")):
        assert pairs(path, source, target)[0] == tuple(first.split(","))


def test_spaces_around_a_header_are_ignored(write: Write) -> None:
    path = write("a.csv", "id, english text, german text\n7,a,b\n")
    with pytest.raises(SeqloomError) as raised:
        pairs(path)
    assert "--source-column 'english text' --target-column 'german text'" in raised.value.hint
    assert pairs(path, "english text", "german text") == [("a", "b")]


def test_empty_lines_before_a_header_are_reported(write: Write) -> None:
    report = DataReport()
    [example] = read(write("a.csv", "\nenglish,german\na,b\n"), report=report)
    assert (example.source, example.line) == ("a", 3)
    assert [(line.line, line.reason) for line in report.lines] == [(1, "empty line")]


# Delimiters


@pytest.mark.parametrize(
    "rows",
    [
        ["english;german", "Where, when?;Wo, wann?", "Thanks.;Danke."],
        ["english\tgerman", "Where, when?\tWo, wann?", "Thanks.\tDanke."],
        ['"a;b";c', '"d;\nd";e'],
    ],
)
def test_csv_may_use_semicolons_or_tabs(write: Write, rows: list[str]) -> None:
    assert delimiter([f"{row}\n" for row in rows]) == ("\t" if "\t" in rows[0] else ";")
    found = pairs(write("a.csv", "".join(f"{row}\n" for row in rows)))
    assert all(target for _, target in found)


@pytest.mark.parametrize("lines", [[], ["a,b\n"], ["a;b,c;d\n"], ["a\n", "b\n"], ["a,b\n", "c,d,e\n"]])
def test_the_comma_is_preferred(lines: list[str]) -> None:
    assert delimiter(lines) == ","


# Options without effect


@pytest.mark.parametrize("name", ["source_column", "prefix_column", "require_column", "heads_column"])
def test_columns_of_text_are_rejected(name: str) -> None:
    with pytest.raises(SeqloomError, match=f"--{name.replace('_', '-')}"):
        check_has_columns("a.txt", "auto", {"other": None, name: "99"})
    with pytest.raises(SeqloomError, match="without a table"):
        check_tables([], {name: "2"})
    check_has_columns("a.txt", "tsv", {name: "99"})
    check_has_columns("a.txt", "auto", {name: None})
