"""Rows of Excel workbooks (XLSX) that may be hostile."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, NamedTuple

from seqloom.data.archives import open_archive
from seqloom.errors import SeqloomError
from seqloom.limits import WORKBOOK_ROWS

if TYPE_CHECKING:
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet


class SheetRow(NamedTuple):
    """Row of a sheet: its number, and its cells as text."""

    number: int
    cells: list[str]


def read_sheets(path: str) -> Iterator[SheetRow | str]:
    """Yield the rows of the first sheet, and then the names of the other sheets."""
    try:
        import openpyxl
    except ImportError as error:
        raise SeqloomError(
            f"Reading {path} needs the library openpyxl, which is not installed.",
            "pip install 'seqloom[documents]', or save the sheet as CSV",
        ) from error
    with open_archive(path, "an Excel workbook"):  # checks the sizes of its parts
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                first, *others = book.worksheets
                yield from _rows(first)
                yield from (sheet.title for sheet in others)
            finally:
                book.close()
    except (SeqloomError, MemoryError, GeneratorExit):
        raise
    except Exception as error:  # a damaged part raises errors of any kind
        raise SeqloomError(
            f"{path} is not an Excel workbook, or is damaged: {error}.", "save it again as XLSX, or as CSV"
        ) from error


def _rows(sheet: ReadOnlyWorksheet) -> Iterator[SheetRow]:
    sheet.reset_dimensions()  # the size that the file states may be wrong
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > WORKBOOK_ROWS:
            raise SeqloomError(f"The sheet {sheet.title} has more than {WORKBOOK_ROWS:,} rows.", "use CSV")
        cells = [_text(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        yield SheetRow(number, cells)


def _text(value: Any) -> str:
    """Return a cell as a spreadsheet shows it in plain format."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value).encode(errors="backslashreplace").decode()
