"""Excel workbooks of openpyxl, Arrow files of pyarrow, and damaged ones."""

from __future__ import annotations

import csv
import json
import zipfile
from datetime import date
from pathlib import Path

import openpyxl
import pyarrow
import pytest

from seqloom.data import archives, readers, workbooks
from seqloom.data.config import DataConfig
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError

PAIRS = [("a house", "ein\nHaus, =1+1"), ('two "x"', "zwei\t"), ("𝄞", " é ")]


def save(path: Path, *sheets: list[tuple[object, ...]]) -> str:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for rows in sheets:
        sheet = book.create_sheet()
        for number, row in enumerate(rows, 1):
            for column, value in enumerate(row, 1):
                cell = sheet.cell(number, column, value)
                if isinstance(value, str):
                    cell.data_type = "s"
    book.save(path)
    return str(path)


def read(path: str, report: DataReport | None = None, **columns: str) -> list[tuple[str, str | None]]:
    found = readers.read(path, report=report or DataReport(), **columns)  # type: ignore[arg-type]
    return [(example.source, example.target) for example in found]


def test_a_workbook_of_two_columns(tmp_path: Path) -> None:
    assert read(save(tmp_path / "a.xlsx", list(PAIRS))) == PAIRS


def test_a_workbook_with_a_header(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [
        ("id", "German", "English"),
        *((i, b, a) for i, (a, b) in enumerate(PAIRS)),
    ]
    path = save(tmp_path / "a.xlsx", rows)
    assert read(path, source_column="English", target_column="German") == PAIRS
    assert read(path, source_column="1", target_column="English")[2] == ("2", "𝄞"), "numbers are text"
    with pytest.raises(SeqloomError, match="no column 'French'"):
        read(path, source_column="French")


def test_cells_of_other_types_empty_rows_and_other_sheets(tmp_path: Path) -> None:
    rows = [("a", 1.0), (True, 2.5), (), ("c",), ("d", date(2024, 3, 5))]
    report = DataReport()
    path = save(tmp_path / "a.xlsx", rows, [("x", "y")], [])  # type: ignore[list-item]
    assert read(path, report) == [("a", "1"), ("TRUE", "2.5"), ("d", "2024-03-05T00:00:00")]
    assert dict(report.counts) == {"empty line": 1, "too few columns": 1, "other sheet of the workbook": 2}
    assert [line.line for line in report.lines] == [3, 4, 0, 0]


def hostile_workbook(path: Path, sheet: str, head: str = "") -> str:
    """Write a workbook whose sheet is this XML."""
    save(path, [("a", "b")])
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    parts["xl/worksheets/sheet1.xml"] = f'{head}<worksheet xmlns="{namespace}">{sheet}</worksheet>'.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in parts.items():
            new.writestr(name, content)
    return str(path)


CELL = '<c t="inlineStr"><is><t>{}</t></is></c>'


@pytest.mark.parametrize(
    "sheet, head",
    [
        ('<sheetData><row r="99999999999">' + CELL.format("a") * 2 + "</row></sheetData>", ""),
        (
            "<sheetData><row>" + CELL.format("&e;") + "</row></sheetData>",
            '<!DOCTYPE x [<!ENTITY e SYSTEM "{}">]>',
        ),
        ("<sheetData>" + "<row>" * 9, ""),
        (" " * (1 << 25), ""),
    ],
    ids=["row", "entity", "truncated", "bomb"],
)
def test_hostile_workbooks(sheet: str, head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbooks, "WORKBOOK_ROWS", 1000)
    monkeypatch.setattr(archives, "ARCHIVE_BYTES", 1 << 20)
    secret = tmp_path / "secret"
    secret.write_text("password")
    path = hostile_workbook(tmp_path / "a.xlsx", sheet, head.format(secret.as_uri()))
    with pytest.raises(SeqloomError, match=r"damaged|rows|unpack") as caught:
        read(path)
    assert "password" not in str(caught.value)


def test_what_is_not_a_workbook_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(SeqloomError, match="not an Excel workbook"):
        read(str(tmp_path / "a.xlsx"))


def table(**more: list[object]) -> pyarrow.Table:
    sources, targets = zip(*PAIRS, strict=True)
    return (
        pyarrow.table({"translation": [{"en": a, "de": b} for a, b in PAIRS], **more})
        if more == {}
        else (pyarrow.table({"source": sources, "target": targets, **more}))
    )


def write_arrow(path: Path, content: pyarrow.Table, *, stream: bool = True) -> str:
    new = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    with new(str(path), content.schema) as writer:
        writer.write_table(content, max_chunksize=2)
    return str(path)


@pytest.mark.parametrize("stream", [True, False])
def test_arrow_files(stream: bool, tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "a.arrow", table(), stream=stream)
    assert read(path, source_column="translation.en", target_column="translation.de") == PAIRS
    assert read(write_arrow(tmp_path / "b.arrow", table(n=[1, 2, 3]), stream=stream)) == PAIRS


def test_a_dataset_saved_to_disk(tmp_path: Path) -> None:
    """The files that `Dataset.save_to_disk` of the library datasets writes."""
    folder = tmp_path / "data" / "train"
    folder.mkdir(parents=True)
    names = [f"data-0000{i}-of-00002.arrow" for i in range(2)]
    for i, name in enumerate(names):
        write_arrow(folder / name, table().slice(2 * i, 2))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")
    options = {"source_column": "translation.en", "target_column": "translation.de"}
    config = DataConfig.model_validate({"train": str(folder), **options})
    report = DataReport()
    assert [(e.source, e.target) for e in read_corpus(config, "train", report)] == PAIRS
    (tmp_path / "data" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(SeqloomError, match="with the splits train"):
        list(read_corpus(DataConfig.model_validate({"train": str(folder.parent)}), "train", report))
    for names in (["../x.arrow"], [], ["/etc/passwd"]):
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
        with pytest.raises(SeqloomError, match="does not list"):
            list(read_corpus(config, "train", report))


def test_damaged_arrow_files_are_errors(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "a.arrow", table(n=[1, 2, 3]))
    content = Path(path).read_bytes()
    for damaged in (b"", b"not arrow at all", content[: len(content) // 2]):
        Path(path).write_bytes(damaged)
        with pytest.raises(SeqloomError, match=r"not an Arrow file|damaged"):
            read(path)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_as_excel_writes_it(delimiter: str, tmp_path: Path) -> None:
    with (tmp_path / "a.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, "excel", delimiter=delimiter)
        writer.writerows([("English", "German"), *PAIRS])
    content = (tmp_path / "a.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf") and b"\r\n" in content and b'"two ""x"""' in content
    assert read(str(tmp_path / "a.csv"), source_column="English", target_column="German") == PAIRS
    declared = f"\ufeffsep={delimiter}\r\n".encode() + content.removeprefix(b"\xef\xbb\xbf")
    (tmp_path / "a.csv").write_bytes(declared)
    assert read(str(tmp_path / "a.csv"), source_column="English", target_column="German") == PAIRS
