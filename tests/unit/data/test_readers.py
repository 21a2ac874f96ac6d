"""Readers: round trips of every format, and clear errors for invalid input."""

import csv
import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqloom.data import lines as line_module
from seqloom.data import readers
from seqloom.data.config import DataConfig
from seqloom.data.lines import lines
from seqloom.data.readers import has_features, read_corpus, read_parallel, read_source, references
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError
from seqloom.types import Example

Pairs = list[tuple[str, str]]
Write = Callable[[str, str | bytes], str]

# Characters that other tools treat as line ends, separators or quotes, and any other Unicode.
ODD = "\u2028\u2029\x85\x0b\x0c\x1c\x00\"'\\,;\ufeff\u00a0 \té𝄞"


def texts(forbidden: str) -> st.SearchStrategy[str]:
    """Return a strategy for text without the characters that a format cannot represent."""
    allowed = "".join(c for c in ODD if c not in forbidden)
    any_character = st.characters(exclude_categories=["Cs"], exclude_characters=forbidden)
    return st.text(st.sampled_from(allowed) | any_character, max_size=12)


def pairs(forbidden: str) -> st.SearchStrategy[Pairs]:
    return st.lists(st.tuples(texts(forbidden), texts(forbidden)), max_size=6)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write_file


def read(
    path: str, source: str = "1", target: str = "2", report: DataReport | None = None, **more: Any
) -> Pairs:
    """Return the pairs of a table as tuples."""
    report = DataReport() if report is None else report
    examples = readers.read(path, source_column=source, target_column=target, report=report, **more)
    return [(e.source, e.target or "") for e in examples]


def as_csv(content: Pairs) -> str:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([("source", "target"), *content])
    return out.getvalue()


# Round trips

round_trip = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@round_trip
@given(content=pairs("\t\n\r"), ending=st.sampled_from(["\n", "\r\n"]), bom=st.booleans())
def test_tsv_round_trip(write: Write, content: Pairs, ending: str, bom: bool) -> None:
    text = "".join(f"{s}\t{t}{ending}" for s, t in content)
    # With a header, a first pair that begins with a byte order mark is not mistaken for one.
    assert read(write("a.tsv", ("\ufeff" if bom else "") + f"en\tde{ending}" + text), "en", "de") == content


@round_trip
@given(content=pairs(""))
def test_csv_round_trip(write: Write, content: Pairs) -> None:
    assert read(write("a.csv", as_csv(content))) == content


@round_trip
@given(content=pairs(""), ascii=st.booleans())
def test_jsonl_round_trip(write: Write, content: Pairs, ascii: bool) -> None:
    rows = [json.dumps({"source": s, "target": t}, ensure_ascii=ascii) for s, t in content]
    assert read(write("a.jsonl", "".join(f"{row}\n" for row in rows))) == content


@round_trip
@given(content=pairs("\n\r"), packed=st.booleans())
def test_parallel_round_trip(write: Write, content: Pairs, packed: bool) -> None:
    files = []
    for side, name in enumerate(("a.en", "a.de")):
        data = ("first\n" + "".join(f"{pair[side]}\n" for pair in content)).encode()
        files.append(write(name, gzip.compress(data) if packed else data))
    report = DataReport()
    examples = list(read_parallel(files[0], files[1], report))[1:]
    assert [(e.source, e.target) for e in examples] == content
    assert [e.line for e in examples] == list(range(2, len(content) + 2))
    assert report.total == len(content) + 1


@round_trip
@given(content=pairs(""))
def test_parquet_round_trip(tmp_path: Path, content: Pairs) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"source": [s for s, _ in content], "target": [t for _, t in content]}
    schema = pyarrow.schema([("source", pyarrow.string()), ("target", pyarrow.large_string())])
    parquet.write_table(pyarrow.table(columns, schema), tmp_path / "a.parquet")
    assert read(str(tmp_path / "a.parquet")) == content


@round_trip
@given(content=st.lists(texts("\n\r"), max_size=6))
def test_output_lines_equal_input_lines_when_translating(write: Write, content: list[str]) -> None:
    path = write("a.txt", "first\n" + "\n".join(content))
    examples = list(read_source(path, source_column="1", report=DataReport()))
    # Without a final line feed, an empty last line does not count, as in other tools.
    expected = content[:-1] if content and content[-1] == "" else content
    assert [e.source for e in examples][1:] == expected


# Lines and bytes


def test_only_a_line_feed_ends_a_line(write: Write) -> None:
    path = write("a.txt", "a\x85b\u2028c\x0bd\x0ce\rf\r\ng\r\r\n\nh")
    assert list(lines(path)) == ["a\x85b\u2028c\x0bd\x0ce\rf", "g\r", "", "h"]


def test_only_one_byte_order_mark_at_the_start_is_dropped(write: Write) -> None:
    assert list(lines(write("a.txt", "\ufeff\ufeffa\n\ufeffb"))) == ["\ufeffa", "\ufeffb"]


def test_gzip_is_detected_by_content_not_by_name(write: Write) -> None:
    assert read(write("a.tsv", gzip.compress(b"a\tb\n"))) == [("a", "b")]
    assert read(write("b.tsv.gz", b"a\tb\n")) == [("a", "b")]
    two = gzip.compress(b"a\tb\n") + gzip.compress(b"c\td\n")
    assert read(write("c.tsv.gz", two)) == [("a", "b"), ("c", "d")]


def test_the_error_for_an_invalid_byte_has_file_line_and_position(write: Write) -> None:
    path = write("a.tsv", b"a\tb\nc\xe4\td\n")
    with pytest.raises(SeqloomError, match=r"a\.tsv, line 2: byte 2 \(0xe4\) is not valid UTF-8"):
        read(path)


def test_an_invalid_byte_after_a_byte_order_mark_is_counted_from_the_start_of_the_line(write: Write) -> None:
    path = write("a.tsv", b"\xef\xbb\xbfab\xff\tb\n")
    with pytest.raises(SeqloomError, match=r"line 1: byte 6 \(0xff\)"):
        read(path)


def test_a_damaged_gz_file_is_an_error(write: Write) -> None:
    data = gzip.compress("".join(f"{i}\t{i * i}\n" for i in range(5000)).encode())
    for name, broken in (
        ("cut.tsv.gz", data[: len(data) // 2]),
        ("flipped.tsv.gz", data[:-8] + b"12345678"),
        ("garbage.tsv.gz", data[:40] + b"\xff" * 40 + data[80:]),
    ):
        with pytest.raises(SeqloomError, match=r"damaged or incomplete gzip file: it ends after line \d+"):
            read(write(name, broken))


@pytest.mark.parametrize("packed", [False, True])
def test_a_minus_is_standard_input(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    data = gzip.compress(b"a\tb\n") if packed else b"a\tb\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert read("-") == [("a", "b")]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\tb\n\n")))
    assert [e.source for e in read_source("-", source_column="1", report=DataReport())] == ["a\tb", ""]


def test_standard_input_is_named_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    with pytest.raises(SeqloomError, match="standard input, line 1"):
        read("-")


def test_missing_files_folders_and_unreadable_files_are_errors(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SeqloomError, match=r"The file .*none\.tsv does not exist"):
        read(str(tmp_path / "none.tsv"))
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(SeqloomError, match="is a folder"):
        read(str(tmp_path / "folder.tsv"))
    path = write("a.tsv", "a\tb\n")

    def forbidden(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbidden)
    with pytest.raises(SeqloomError, match=r"Cannot read .*a\.tsv: Permission denied"):
        read(path)


# Formats and columns


@pytest.mark.parametrize("name", ["a.tsv", "a.TSV.gz", "a.txt", "a", "a.tab"])
def test_tables_without_a_known_suffix_are_tsv(write: Write, name: str) -> None:
    assert read(write(name, "a,1\tb\n")) == [("a,1", "b")]


def test_the_format_can_be_given(write: Write) -> None:
    assert read(write("a.dat", "a,b\n"), format="csv") == [("a", "b")]


@pytest.mark.parametrize("name", ["a.xls", "train.en.gz"])
def test_an_unknown_suffix_is_rejected(write: Write, name: str) -> None:
    with pytest.raises(SeqloomError, match=r"Unknown table format.*\n.*data\.format"):
        read(write(name, "a\tb\n"))


def test_columns_by_name_and_by_number(write: Write) -> None:
    path = write("a.tsv", "id\ten\tde\n1\tone\teins\n")
    assert read(path, "en", "de") == [("one", "eins")]
    assert read(path, "2", "de") == [("one", "eins")]
    assert read(path, "3", "2") == [("de", "en"), ("eins", "one")]  # selected by number: no header


def test_a_number_is_never_a_header(write: Write) -> None:
    assert read(write("a.tsv", "2\t1\n3\t4\n")) == [("2", "1"), ("3", "4")]


def test_a_header_with_source_and_target_is_not_a_pair(write: Write) -> None:
    assert read(write("a.csv", "Source,Target\na,b\n")) == [("a", "b")]
    assert read(write("b.csv", "source,Quelle\n")) == [("source", "Quelle")]
    one_column = write("c.tsv", "source\ntarget\n")
    examples = read_source(one_column, source_column="1", report=DataReport())
    assert [e.source for e in examples] == ["source", "target"]


def test_the_error_for_a_missing_column_lists_the_columns(write: Write) -> None:
    with pytest.raises(SeqloomError, match=r"a\.tsv has no column 'fr'; its columns are: en, de"):
        read(write("a.tsv", "en\tde\n"), "en", "fr")
    with pytest.raises(SeqloomError, match="no column 'en'; its columns are: none"):
        read(write("b.tsv", ""), "en", "fr")
    with pytest.raises(SeqloomError, match="Invalid column 0"):
        read(write("c.tsv", "a\tb\n"), "0")


def test_other_columns_are_kept(write: Write) -> None:
    def columns(path: str, source: str, target: str) -> Iterator[dict[str, str]]:
        for e in readers.read(path, source_column=source, target_column=target, report=DataReport()):
            yield dict(e.columns)

    assert list(columns(write("a.tsv", "a\tb\tc\nd\te\n"), "1", "2")) == [{"3": "c"}, {}]
    assert list(columns(write("b.tsv", "id\ten\tde\n7\ta\tb\tx\n"), "en", "de")) == [{"id": "7", "4": "x"}]
    row = json.dumps({"source": "a", "target": "b", "id": 7, "tags": ["x"], "none": None})
    assert list(columns(write("c.jsonl", row), "1", "2")) == [{"id": "7", "tags": '["x"]'}]


@pytest.mark.parametrize(
    "name, content, source, target",
    [
        ("a.tsv", "q\ta\tb\tc\n", "1", "2,3, 4"),
        ("b.tsv", "s\tt\tu\tv\nq\ta\tb\tc\n", "s", "t,u,v"),
        ("c.tsv", "s\tt\tu\tv\nq\ta\tb\tc\n", "s", "t,3,4"),
        ("d.jsonl", '{"source": "q", "target": "a", "u": "b", "v": {"w": "c"}}', "1", "target,u,v.w"),
    ],
)
def test_several_target_columns_are_references(
    write: Write, name: str, content: str, source: str, target: str
) -> None:
    path = write(name, content)
    [example] = readers.read(path, source_column=source, target_column=target, report=DataReport())
    assert references(example, target) == ["a", "b", "c"]


def test_json_keys_may_be_nested_or_contain_a_dot(write: Write) -> None:
    rows = [{"translation": {"en": "a", "de": "b"}}, {"translation.en": "c", "translation.de": "d"}]
    path = write("a.jsonl", "\n".join(map(json.dumps, rows)))
    assert read(path, "translation.en", "translation.de") == [("a", "b"), ("c", "d")]


def test_quoted_line_ends_count_in_line_numbers(write: Write) -> None:
    path = write("a.csv", 'a,"b\nb\r\nb"\n\n"c, ""c""",d\n')
    report = DataReport()
    examples = list(readers.read(path, source_column="1", target_column="2", report=report))
    assert [(e.line, e.source, e.target) for e in examples] == [(1, "a", "b\nb\r\nb"), (5, 'c, "c"', "d")]
    assert [(row.line, row.reason) for row in report.lines] == [(4, "empty line")]


# Malformed records


def test_every_line_affected_by_a_stray_quote_is_reported(write: Write) -> None:
    report = DataReport()
    path = write("a.csv", 'a,b\n"c,d\ne,f\ng,"h"\ni,j\n')
    assert read(path, report=report) == [("a", "b"), ("i", "j")]
    assert [(row.line, row.text) for row in report.lines] == [(2, '"c,d'), (3, "e,f"), (4, 'g,"h"')]
    assert (report.total, report.kept) == (5, 2)


def test_an_unclosed_quote_loses_nothing_silently(write: Write) -> None:
    report = DataReport()
    path = write("a.csv", 'a,"b\n' + "c,d\n" * 60_000)
    kept = read(path, report=report)
    assert report.total == 60_001 == len(kept) + report.dropped
    assert "malformed CSV" in report.lines[0].reason


@pytest.mark.parametrize(
    "line, reason",
    [
        ("", "empty line"),
        ("{", "malformed JSON"),
        ("[" * 100_000, "malformed JSON"),
        ('["a", "b"]', "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"source": "a"}', "no key target"),
        ('{"source": "a", "target": 3}', "target is not a string"),
        ('{"source": "a", "target": null}', "target is not a string"),
        ('{"source": "\\ud800", "target": "b"}', "source has an unpaired surrogate"),
    ],
)
def test_malformed_json_lines_are_reported(write: Write, line: str, reason: str) -> None:
    report = DataReport()
    good = '{"source": "a", "target": "b"}'
    assert read(write("a.jsonl", f"{good}\n{line}\n{good}\n"), report=report) == [("a", "b")] * 2
    assert [(row.line, row.reason, row.text[:100]) for row in report.lines] == [(2, reason, line[:100])]


def test_rows_with_too_few_columns_are_reported(write: Write) -> None:
    report = DataReport()
    assert read(write("a.tsv", "a\tb\nonly\n\nc\td\n"), report=report) == [("a", "b"), ("c", "d")]
    assert [(r.line, r.reason, r.text) for r in report.lines] == [
        (2, "too few columns", "only"),
        (3, "empty line", ""),
    ]


def test_malformed_records_stay_as_empty_lines_when_translating(write: Write) -> None:
    report = DataReport()
    path = write("a.jsonl", '{"source": "a"}\n{\n\n{"source": "b", "id": "7"}\n')
    examples = list(read_source(path, source_column="1", report=report))
    assert [(e.line, e.source, e.target) for e in examples] == [
        (i, s, None) for i, s in enumerate(["a", "", "", "b"], 1)
    ]
    assert examples[3].columns == {"id": "7"}
    assert report.counts == {"malformed JSON": 1, "empty line": 1}
    assert report.kept == 4


# Parquet


def test_parquet_columns_and_faults(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = {
        "en": ["a", None, "c"],
        "n": [1, 2, 3],
        "t": [{"de": "A"}, {"de": "B"}, {"de": "C"}],
        "id": list("xyz"),
    }
    path = str(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table(rows), path)
    report = DataReport()
    examples = list(readers.read(path, source_column="en", target_column="t.de", report=report))
    assert [(e.line, e.source, e.target, e.columns["id"]) for e in examples] == [
        (1, "a", "A", "x"),
        (3, "c", "C", "z"),
    ]
    assert [(r.line, r.reason) for r in report.lines] == [(2, "en is not a string")]
    assert '"id": "y"' in report.lines[0].text
    assert read(path, "1", "4") == [("a", "x"), ("c", "z")]
    with pytest.raises(SeqloomError, match="no column 'fr'; its columns are: en, n, t, id"):
        read(path, "en", "fr")


def test_files_that_are_not_parquet_are_errors(write: Write, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(SeqloomError, match="is not a Parquet file"):
        read(write("a.parquet", "a\tb\n"))
    with pytest.raises(SeqloomError, match="does not exist"):
        read(str(tmp_path / "none.parquet"))
    with pytest.raises(SeqloomError, match="standard input"):
        read("-", format="parquet")


def test_a_damaged_parquet_file_is_an_error(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    texts = [f"text {i} {i * i}" for i in range(5000)]
    parquet.write_table(pyarrow.table({"source": texts, "target": texts}), path)
    data = bytearray(path.read_bytes())
    data[4:2000] = b"\xff" * 1996
    path.write_bytes(data)
    with pytest.raises(SeqloomError, match=r"damaged after row \d+"):
        read(str(path))


def test_without_pyarrow_the_error_has_an_install_hint(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SeqloomError, match=r"requires pyarrow.*\n.*seqloom\[data\]"):
        read(write("a.parquet", ""))


# Two files


@pytest.mark.parametrize("left, right", [(3, 5), (5, 3), (0, 2), (2, 0)])
def test_the_error_for_files_of_different_length_has_both_counts(write: Write, left: int, right: int) -> None:
    source, target = write("a.en", "x\n" * left), write("a.de", "y\n" * right)
    with pytest.raises(SeqloomError, match=rf"a\.en has {left} lines, but .*a\.de has {right}\."):
        list(read_parallel(source, target, DataReport()))


def test_two_files_cannot_both_be_standard_input() -> None:
    with pytest.raises(SeqloomError, match="cannot both be standard input"):
        list(read_parallel("-", "-", DataReport()))


# Entire corpora


def test_a_corpus_is_tables_or_two_files(write: Write) -> None:
    def pairs_of(config: DataConfig, part: Any) -> list[tuple[str, str | None]]:
        return [(e.source, e.target) for e in read_corpus(config, part, DataReport())]

    a, b = write("a.tsv", "a\tb\n"), write("b.csv", "c,d\n")
    en, de = write("x.en", "one\n"), write("x.de", "eins\n")
    assert pairs_of(DataConfig(train=(a, b), valid=(b,)), "train") == [("a", "b"), ("c", "d")]
    assert pairs_of(DataConfig(train=(a, b), valid=(b,)), "valid") == [("c", "d")]
    aligned = DataConfig(source=en, target=de, valid_source=de, valid_target=en)
    assert pairs_of(aligned, "train") == [("one", "eins")]
    assert pairs_of(aligned, "valid") == [("eins", "one")]
    with pytest.raises(SeqloomError, match="No valid data given"):
        pairs_of(DataConfig(train=(a,)), "valid")


def test_reading_is_lazy(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0

    def endless(path: str) -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield f"{taken}\t{taken}\n"

    monkeypatch.setattr(line_module, "raw_lines", endless)
    examples = readers.read("a.tsv", source_column="1", target_column="2", report=DataReport())
    assert [next(examples) for _ in range(3)][-1] == Example("3", "3", 3, "a.tsv")
    assert taken == 3


def test_plain_text_is_lines_without_targets(tmp_path: Path) -> None:
    text, table = tmp_path / "text.txt", tmp_path / "table.tsv"
    text.write_text("a b\n\nc\td\n")
    table.write_text("a\tb\nc\td\n")
    report = DataReport()
    found = list(read_corpus(DataConfig(train=(str(text),), format="text"), "train", report))
    assert [(e.source, e.target, e.line) for e in found] == [("a b", None, 1), ("", None, 2), ("c\td", None, 3)]
    assert report.total == 3
    column = DataConfig(train=(str(table),), source_column="2", target_column="none")
    assert [(e.source, e.target) for e in read_corpus(column, "train", DataReport())] == [
        ("b", None),
        ("d", None),
    ]


# Trees

CONLLU = """# text = Dogs bark
1\tDogs\t_\t_\t_\t_\t2\t_\t_\t_
2\tbark\t_\t_\t_\t_\t0\t_\t_\t_

1\tbroken\t_\t_\t_\t_\t7\t_\t_\t_

1\tGo\t_\t_\t_\t_\t0\t_\t_\t_
"""


@pytest.mark.parametrize(
    "name, content, columns",
    [
        ("a.tsv", "dogs bark\tHunde\t2 0\ncats\tKatzen\t1\n", ("1", "2", "3")),
        ("a.tsv", "tree\tde\ten\n2 0\tHunde\tdogs bark\n1\tKatzen\tcats\n", ("en", "de", "tree")),
        ("a.csv", "2 0,dogs bark,Hunde\n1,cats,Katzen\n", ("2", "3", "1")),
        (
            "a.jsonl",
            '{"source": "dogs bark", "target": "Hunde", "h": "2 0"}\n'
            '{"source": "cats", "target": "Katzen", "h": "1"}\n',
            ("1", "2", "h"),
        ),
    ],
)
def test_a_column_of_heads(write: Write, name: str, content: str, columns: tuple[str, str, str]) -> None:
    path, report = write(name, content), DataReport()
    source, target, heads = columns
    config = DataConfig(train=(path,), source_column=source, target_column=target, heads_column=heads)
    (example,) = read_corpus(config, "train", report)
    assert (example.source, example.target, example.heads) == ("dogs bark", "Hunde", (2, 0))
    assert [(line.reason, line.text) for line in report.lines] == [("the heads have no root", "cats\tKatzen")]
    report = DataReport()
    first, second = read_source(path, source_column=source, heads_column=heads, report=report)
    assert (first.source, first.heads) == ("dogs bark", (2, 0))
    assert (second.source, second.heads, second.line) == ("", None, first.line + 1)
    assert [(line.reason, line.dropped) for line in report.lines] == [("the heads have no root", False)]


def test_a_missing_column_of_heads_is_an_error(write: Write) -> None:
    path = write("a.tsv", "dogs bark\tHunde\n")
    with pytest.raises(SeqloomError, match="has no column '3'"):
        read(path, heads_column="3")
    with pytest.raises(SeqloomError, match="has no column 'tree'"):
        read(path, heads_column="tree")


def test_one_or_both_of_two_files_may_be_conllu(write: Write) -> None:
    trees = write("en.conllu.gz", gzip.compress(CONLLU.encode()))
    text, report = write("de.txt", "Hunde bellen\nkaputt\nGeh\n"), DataReport()
    found = list(read_parallel(trees, text, report))
    assert [(e.source, e.target, e.heads, e.line) for e in found] == [
        ("Dogs bark", "Hunde bellen", (2, 0), 2),
        ("Go", "Geh", (0,), 7),
    ]
    (line,) = report.lines
    assert (line.line, line.reason) == (5, "a head is not the number of a word")
    assert report.total == 3
    swapped = list(read_parallel(text, trees, DataReport()))
    assert [(e.source, e.target, e.heads) for e in swapped] == [
        ("Hunde bellen", "Dogs bark", None),
        ("Geh", "Go", None),
    ]


def test_conllu_and_text_of_different_lengths(write: Write) -> None:
    trees, text = write("en.conllu", CONLLU), write("de.txt", "Hunde bellen\n")
    with pytest.raises(SeqloomError, match=r"en.conllu has 3 sentences, but .*de.txt has 1\."):
        list(read_parallel(trees, text, DataReport()))


def test_conllu_to_translate_keeps_every_sentence(write: Write) -> None:
    report = DataReport()
    found = list(read_source(write("a.conllu", CONLLU), source_column="1", report=report))
    assert [(e.source, e.heads) for e in found] == [("Dogs bark", (2, 0)), ("", None), ("Go", (0,))]
    assert [(line.line, line.text) for line in report.lines] == [(5, "broken")]
    named = list(read_source(write("a.txt", CONLLU), format="conllu", source_column="1", report=report))
    assert [e.heads for e in named] == [(2, 0), None, (0,)]


def test_conllu_is_not_a_table_of_pairs(write: Write) -> None:
    with pytest.raises(SeqloomError, match="Unknown table format"):
        read(write("a.conllu", CONLLU))


def test_paths_of_features_next_to_a_table_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "a.wav").touch()
    here, gone = str(tmp_path / "clips" / "a.wav"), "clips/gone.wav"
    table, sources, targets = (tmp_path / name for name in ("pairs.tsv", "a.txt", "b.txt"))
    table.write_text("clips/a.wav\tone\nclips/gone.wav\ttwo\n")
    sources.write_text("clips/a.wav\nclips/gone.wav\n")
    targets.write_text("one\ntwo\n")
    report = DataReport()
    pairs = readers.read(str(table), source_column="1", target_column="2", report=report)
    assert [example.source for example in pairs] == [here, gone]
    assert [example.source for example in read_parallel(str(sources), str(targets), report)] == [here, gone]
    for path in (table, sources):
        read_again = read_source(str(path), source_column="1", report=report)
        assert [example.source for example in read_again] == [here, gone]


def test_a_corpus_of_features_is_distinguished_from_text(tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"

    def found(text: str, **options: Any) -> bool:
        table.write_text(text)
        return has_features(DataConfig(train=(str(table),), **options))

    assert found("a.wav\tone\nb.npz#3\ttwo\n")
    assert not found("a.wav\tone\na text\ttwo\n")
    assert not found("")
    assert not found("a.wav\tone\n", target_column="none")
    assert found("one\ta.wav\n", source_column="2", target_column="1")
    assert not has_features(DataConfig(train=(str(tmp_path / "gone.tsv"),)))
    assert not has_features(DataConfig(train=("-",)))
    assert not has_features(DataConfig())
