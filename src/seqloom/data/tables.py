"""Selected columns of tables: TSV, CSV, JSONL, Parquet, Arrow and Excel workbooks.

A column of JSONL, Parquet or Arrow is a key; `translation.en` selects a key of a nested object. In JSONL the
keys `source` and `target` are also columns 1 and 2, and the default columns. `seqloom.data.columns` documents
the rules for the other formats.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from seqloom.data.arrow_files import load_pyarrow, open_arrow
from seqloom.data.columns import (
    ColumnPositions,
    ColumnSelection,
    TableLayout,
    delimiter,
    is_number,
    no_column,
)
from seqloom.data.config import Format
from seqloom.data.lines import display_name, lines, opened, raw_lines
from seqloom.data.parquet_pages import unpacked_sizes
from seqloom.data.records import (
    FALLBACK_KEYS,
    CellSelector,
    ColumnKeys,
    Malformed,
    SelectedCells,
    TableRow,
    as_text,
    has_key,
    select_by_key,
)
from seqloom.data.workbooks import read_sheets
from seqloom.errors import SeqloomError
from seqloom.files import is_special
from seqloom.limits import COLUMNS, PARQUET_BATCH_BYTES, PARQUET_PAGE_BYTES

SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".arrow": "arrow",
    ".conllu": "conllu",
    ".tmx": "tmx",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".sdlxliff": "xliff",
    ".mqxliff": "xliff",
    ".po": "po",
    ".mo": "mo",
    ".ts": "ts",
    ".srt": "subtitles",
    ".vtt": "subtitles",
    ".zip": "zip",
}
TABLES: tuple[Format, ...] = ("tsv", "csv", "jsonl", "parquet", "xlsx", "arrow")
_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?\r?\n', re.IGNORECASE)  # first line of a CSV file for Excel
_TOO_WIDE = f"more than {COLUMNS:,} columns"
_PARQUET_ROWS = 1024  # read at a time, unless they may be large
_PEEKED_ROWS = 10  # rows that determine the delimiter, header and columns of a table

Item = TypeVar("Item")


def suffix(path: str) -> str:
    name = Path(path).name.lower().removesuffix(".gz")
    return "" if path == "-" else Path(name).suffix


def table_format(path: str, format: Format) -> Format:
    """Return the format of a file of pairs; TSV if it has no suffix or .txt."""
    if format == "auto":
        ending = suffix(path)
        format = "tsv" if ending in ("", ".txt") else SUFFIXES.get(ending, "text")
    if format in ("text", "conllu", "subtitles"):
        raise SeqloomError(
            f"Unknown table format: {display_name(path)}.",
            "set data.format to tsv, csv, jsonl, tmx, ..., or give two aligned files as source and target",
        )
    return format


def rows(
    path: str, format: Format, selection: ColumnSelection
) -> Iterator[tuple[TableRow, SelectedCells | str]]:
    """Yield each row of a table with its selected cells, or with the reason why it is malformed."""
    if format == "jsonl":
        rows, select = _json_table(path, selection)
    elif format == "parquet":
        rows, select = _parquet_table(path, selection)
    elif format == "arrow":
        rows, select = _arrow_table(path, selection)
    else:
        rows, select = _delimited_table(path, format, selection)
    for row in rows:
        try:
            yield row, select(row.cells) if row.cells is not None else row.fault
        except Malformed as fault:
            yield row._replace(text=row.text or as_text(row.cells)), str(fault)


def first_cells(path: str, format: Format, count: int) -> list[list[str]]:
    """Return the cells of the first data rows of a TSV or CSV file, without a header."""
    rows = _tsv_rows(path) if format == "tsv" else _csv_rows(path)
    cells = [row.cells for row in islice(rows, count) if row.cells]
    layout = TableLayout.of(path, cells[:_PEEKED_ROWS], ColumnSelection(None))
    return cells[1:] if layout.header else cells


def _tsv_rows(path: str) -> Iterator[TableRow]:
    for number, line in enumerate(lines(path), 1):
        if line.count("\t") >= COLUMNS:
            yield TableRow(number, line, None, _TOO_WIDE)
        else:
            yield TableRow(number, line, line.split("\t") if line else None)


def _csv_rows(path: str) -> Iterator[TableRow]:
    taken: list[str] = []  # physical lines of the current record: a quoted cell may contain line ends
    first, physical = _peek(path, raw_lines(path))

    def take_lines() -> Iterator[str]:
        for line in physical:
            taken.append(line)
            yield line

    start = 1
    declared = _SEPARATOR.fullmatch(first[0]) if first else None
    if declared:
        next(physical)
        start = 2
    reader = csv.reader(take_lines(), delimiter=declared[1] if declared else delimiter(first), strict=True)
    while True:
        taken.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:  # a stray quote may affect many lines: report each of them
            for number, line in enumerate(taken, start):
                yield TableRow(number, line.rstrip("\r\n"), None, f"malformed CSV: {error}")
        else:
            if cells is None:
                return
            text = "".join(taken).rstrip("\r\n")
            yield (
                TableRow(start, text, None, _TOO_WIDE)
                if len(cells) > COLUMNS
                else TableRow(start, text, cells or None)
            )
        start += len(taken)


def _sheet_rows(path: str) -> Iterator[TableRow]:
    """Yield the rows of the first sheet of a workbook; the other sheets are reported as one row each."""
    for row in read_sheets(path):
        if isinstance(row, str):
            yield TableRow(0, row, None, "other sheet of the workbook")
        elif len(row.cells) > COLUMNS:
            yield TableRow(row.number, "", None, _TOO_WIDE)
        else:
            yield TableRow(row.number, "\t".join(row.cells), row.cells or None)


def _json_rows(path: str) -> Iterator[TableRow]:
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            yield TableRow(number, line, None)
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            yield TableRow(number, line, None, "malformed JSON")
            continue
        yield TableRow(number, line, value if isinstance(value, dict) else None, "not a JSON object")


def _json_table(path: str, selection: ColumnSelection) -> tuple[Iterator[TableRow], CellSelector]:
    """Return the records of a JSONL file and their selector; raise if none of the first has a selected key."""
    targets = ["target"] if selection.targets is None else selection.targets
    keys = ColumnKeys(selection.source or "source", targets, selection.others)
    first, rows = _peek(path, _json_rows(path))
    records = [row.cells for row in first if row.cells is not None]
    for key in keys.all:
        if records and not any(has_key(record, key) for record in records):
            raise no_column(path, key, list(records[0]))
    return rows, select_by_key(path, keys)


def _arrow_table(path: str, selection: ColumnSelection) -> tuple[Iterator[TableRow], CellSelector]:
    table = open_arrow(path)
    keys = _parquet_keys(path, selection, table.names)
    kept = {_root(key, table.names) for key in keys.all} | set(table.texts)
    rows = (
        TableRow(number, "", {name: value for name, value in row.items() if name in kept})
        for number, row in enumerate(table.rows, 1)
    )
    return rows, select_by_key(path, keys)


def _parquet_table(path: str, selection: ColumnSelection) -> tuple[Iterator[TableRow], CellSelector]:
    pyarrow = load_pyarrow(path)
    from pyarrow import parquet

    if path == "-" or is_special(path):
        raise SeqloomError(f"Cannot read Parquet from {display_name(path)}, which is a stream.", "use a file")
    damage = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
    try:
        with opened(path):  # raises the usual errors for a missing file or a folder
            table = parquet.ParquetFile(path)
    except damage as error:
        raise SeqloomError(f"{path} is not a Parquet file.", "check the file and data.format") from error
    schema = table.schema_arrow
    keys = _parquet_keys(path, selection, schema.names)
    roots = {_root(key, schema.names) for key in keys.all}
    names = [f.name for f in schema if f.name in roots or str(f.type) in ("string", "large_string")]
    try:
        batch_size = _parquet_batch_size(path, table.metadata, set(names))
    except damage as error:  # e.g. a column name that is not UTF-8
        raise SeqloomError(f"The footer of {path} is damaged.", "download or write the file again") from error

    def rows() -> Iterator[TableRow]:
        number = 0
        try:
            for batch in table.iter_batches(batch_size=batch_size, columns=names):
                for cells in batch.to_pylist():
                    number += 1
                    yield TableRow(number, "", cells)
        except damage as error:
            raise SeqloomError(
                f"{path} is damaged after row {number}.", "download or write the file again"
            ) from error

    return rows(), select_by_key(path, keys)


def _parquet_batch_size(path: str, metadata: Any, columns: set[str]) -> int:
    """Return the number of rows to read at a time; raise if an uncompressed page is too large."""
    sizes = unpacked_sizes(path, metadata, columns)
    if sizes.largest_page > PARQUET_PAGE_BYTES:
        raise SeqloomError(
            f"{path} has a page of {sizes.largest_page:,} bytes after decompression; the limit is "
            f"{PARQUET_PAGE_BYTES:,}.",
            "write the file with smaller pages or row groups",
        )
    return max(1, min(_PARQUET_ROWS, PARQUET_BATCH_BYTES // max(1, sizes.largest_repeated)))


def _parquet_keys(path: str, selection: ColumnSelection, names: list[str]) -> ColumnKeys:
    """Return the keys of a selection, including default columns."""

    def keys(columns: Sequence[str]) -> list[str]:
        return [_parquet_key(path, column, names) for column in columns]

    def positions(keys: Sequence[str]) -> list[int]:
        return [names.index(_root(key, names)) for key in keys]

    source, targets = keys([selection.source] if selection.source else []), keys(selection.targets or ())
    others = keys(selection.others)
    chosen = TableLayout(path, names, names, len(names)).completed(
        selection, next(iter(positions(source)), None), positions(targets), positions(others)
    )
    if max(chosen.source, *chosen.targets, 0) >= len(names):
        raise no_column(path, "target", names)
    found = [names[i] for i in (chosen.source, *chosen.targets)]
    return ColumnKeys((source or found)[0], targets or found[1:], others)


def _root(key: str, names: Sequence[str]) -> str:
    """Return the top-level column of a key."""
    return key if key in names else key.split(".")[0]


def _parquet_key(path: str, column: str, names: list[str]) -> str:
    for key in (column, FALLBACK_KEYS.get(column, column)):
        if key in names or key.split(".")[0] in names:
            return key
    if is_number(column) and 1 <= int(column) <= len(names):
        return names[int(column) - 1]
    raise no_column(path, column, names)


def _delimited_table(
    path: str, format: Format, selection: ColumnSelection
) -> tuple[Iterator[TableRow], CellSelector]:
    """Return the data rows of a TSV or CSV file and their selector, based on the first rows."""
    read = {"tsv": _tsv_rows, "xlsx": _sheet_rows}.get(format, _csv_rows)
    first, rows = _peek(path, read(path))
    layout = TableLayout.of(path, [row.cells for row in first if row.cells], selection)
    if layout.header:
        rows = _without_header(rows)
    return rows, _select_by_position(layout.header, selection, layout.positions(selection))


def _without_header(rows: Iterator[TableRow]) -> Iterator[TableRow]:
    """Yield the rows without the first one that has cells."""
    for row in rows:
        if row.cells:
            break
        yield row
    yield from rows


def _peek(path: str, items: Iterator[Item]) -> tuple[list[Item], Iterator[Item]]:
    """Return the first items of a file, and an iterator over all of them.

    For a pipe this is one item: the writing process may wait for the output of its first line.
    """
    first = list(islice(items, _PEEKED_ROWS if path != "-" and os.path.isfile(path) else 1))
    return first, chain(first, items)


def _select_by_position(
    header: list[str], selection: ColumnSelection, positions: ColumnPositions
) -> CellSelector:
    """Return the selector for lists; `others` has all other cells by header or by number."""
    source, targets, others = positions
    named = dict(zip((selection.targets or ())[1:], targets[1:], strict=False))
    named.update(zip(selection.others, others, strict=True))
    used = {source, *targets, *others}
    needed = max(used) + 1

    def select(cells: list[str]) -> SelectedCells:
        if len(cells) < needed:
            raise Malformed("too few columns")
        others = {name: cells[i] for name, i in named.items()}  # keyed as the user wrote them
        if len(cells) > len(used):
            names = [*header, *map(str, range(len(header) + 1, len(cells) + 1))]
            others.update({names[i]: cell for i, cell in enumerate(cells) if i not in used})
        return SelectedCells(cells[source], cells[targets[0]] if targets else None, others)

    return select
