"""The rows of a table and the columns that were asked for: TSV, CSV, JSONL, Parquet.

Which columns: a name needs a header row (TSV, CSV) or is a key (JSONL, Parquet; `translation.en` reaches into
nested objects). A number counts from 1. When all are numbers, a TSV or CSV file has no header, unless its first
row says literally `source` in the source column and `target` in another one. For JSONL and Parquet, 1 and 2 are
the keys `source` and `target`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.data.config import Format
from seqloom.data.lines import lines, opened, raw_lines, shown
from seqloom.errors import SeqloomError

SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".conllu": "conllu",
}
FALLBACK_KEYS = {"1": "source", "2": "target"}


class Row(NamedTuple):
    """One record of a table: the line where it starts, its raw text, and its cells (None: it has none)."""

    line: int
    text: str
    cells: Any  # list of str (TSV, CSV) or dict (JSONL, Parquet)
    fault: str = "empty line"  # why there are no cells


class Malformed(Exception):
    """A record that is no example; its argument is the reason that the report gives."""


class Picked(NamedTuple):
    """The columns of a row that the user asked for."""

    source: str
    target: str | None
    others: Mapping[str, str]


Pick = Callable[[Any], Picked]


def suffix(path: str) -> str:
    name = Path(path).name.lower().removesuffix(".gz")
    return "" if path == "-" else Path(name).suffix


def table_format(path: str, format: Format) -> Format:
    """The format of a table of pairs; without a telling suffix it is TSV."""
    if format == "auto":
        ending = suffix(path)
        format = "tsv" if ending in ("", ".txt") else SUFFIXES.get(ending, "text")
    if format in ("text", "conllu"):
        raise SeqloomError(
            f"{shown(path)} is no table of pairs that can be told by its name (TSV, CSV, JSONL, Parquet).",
            "say data.format=tsv (csv, jsonl, parquet), or give two aligned text files as source and target",
        )
    return format


def rows(path: str, format: Format, source: str, targets: list[str]) -> Iterator[tuple[Row, Picked | str]]:
    """Every row of a table with the chosen columns, or with the reason why it has none."""
    if format == "jsonl":
        rows, pick = _json_rows(path), _by_key(source, targets)
    elif format == "parquet":
        rows, pick = _parquet_rows(path, source, targets)
    else:
        rows = _tsv_rows(path) if format == "tsv" else _csv_rows(path)
        rows, pick = _after_header(path, rows, source, targets)
    for row in rows:
        try:
            yield row, pick(row.cells) if row.cells is not None else row.fault
        except Malformed as fault:
            yield row._replace(text=row.text or _as_text(row.cells)), str(fault)


def _tsv_rows(path: str) -> Iterator[Row]:
    for number, line in enumerate(lines(path), 1):
        yield Row(number, line, line.split("\t") if line else None)


def _csv_rows(path: str) -> Iterator[Row]:
    taken: list[str] = []  # the physical lines of the record at hand: a quoted cell may hold line ends

    def taking() -> Iterator[str]:
        for line in raw_lines(path):
            taken.append(line)
            yield line

    reader = csv.reader(taking(), strict=True)
    start = 1
    while True:
        taken.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:  # a stray quote may have swallowed many lines: each of them is listed
            for number, line in enumerate(taken, start):
                yield Row(number, line.rstrip("\r\n"), None, f"malformed CSV: {error}")
        else:
            if cells is None:
                return
            yield Row(start, "".join(taken).rstrip("\r\n"), cells or None)
        start += len(taken)


def _json_rows(path: str) -> Iterator[Row]:
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            yield Row(number, line, None)
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            yield Row(number, line, None, "malformed JSON")
            continue
        yield Row(number, line, value if isinstance(value, dict) else None, "not a JSON object")


def _parquet_rows(path: str, source: str, targets: list[str]) -> tuple[Iterator[Row], Pick]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        hint = "pip install 'seqloom[data]'"
        raise SeqloomError(f"Reading {path} needs pyarrow, which is not installed.", hint) from error
    if path == "-":
        raise SeqloomError("Parquet cannot be read from standard input.", "name a file")
    damage = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
    try:
        with opened(path):  # gives the usual sentences for a missing file or a folder
            table = parquet.ParquetFile(path)
    except damage as error:
        raise SeqloomError(f"{path} is not a Parquet file.", "check the file, or data.format") from error
    schema = table.schema_arrow
    keys = [_parquet_key(path, column, schema.names) for column in (source, *targets)]
    roots = {key if key in schema.names else key.split(".")[0] for key in keys}
    wanted = [f.name for f in schema if f.name in roots or str(f.type) in ("string", "large_string")]

    def rows() -> Iterator[Row]:
        number = 0
        try:
            for batch in table.iter_batches(batch_size=1024, columns=wanted):
                for cells in batch.to_pylist():
                    number += 1
                    yield Row(number, "", cells)
        except damage as error:
            raise SeqloomError(f"{path} is damaged after row {number}.", "fetch or write it again") from error

    return rows(), _by_key(keys[0], keys[1:])


def _parquet_key(path: str, column: str, names: list[str]) -> str:
    for key in (column, FALLBACK_KEYS.get(column, column)):
        if key in names or key.split(".")[0] in names:
            return key
    if _is_number(column) and 1 <= int(column) <= len(names):
        return names[int(column) - 1]
    raise _no_column(path, column, names)


# Columns


def _by_key(source: str, targets: list[str]) -> Pick:
    """Picks from a dict; the other columns are what else is in it, as text."""

    def pick(cells: Mapping[str, Any]) -> Picked:
        chosen = [_text_at(cells, key) for key in (source, *targets)]
        used = {FALLBACK_KEYS.get(k, k) if k not in cells else k for k in (source, *targets[:1])}
        others = {_as_text(k): _as_text(v) for k, v in cells.items() if k not in used and v is not None}
        others.update(zip(targets[1:], chosen[2:], strict=True))
        return Picked(chosen[0], chosen[1] if targets else None, others)

    return pick


def _as_text(value: Any) -> str:
    """What a cell says; half a surrogate pair, which UTF-8 cannot spell, as JSON spells it."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        raise Malformed("a cell is nested too deeply") from None
    return text.encode(errors="backslashreplace").decode()


def _text_at(cells: Mapping[str, Any], key: str) -> str:
    value: Any = cells
    fallback = FALLBACK_KEYS.get(key, key)
    for name in [key] if key in cells else [fallback] if fallback in cells else key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise Malformed(f"no key {fallback}")
        value = value[name]
    if not isinstance(value, str):
        raise Malformed(f"{fallback} is not a text")
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can spell half a surrogate pair, UTF-8 cannot
        raise Malformed(f"{fallback} has half a surrogate pair") from None
    return value


def _after_header(
    path: str, rows: Iterator[Row], source: str, targets: list[str]
) -> tuple[Iterator[Row], Pick]:
    """The data rows and how to pick from them, decided by a look at the first row."""
    columns = [source, *targets]
    first = next(rows, None)
    cells: list[str] = (first.cells or []) if first else []
    if not all(map(_is_number, columns)) or _is_header(cells, source):
        return rows, _by_position(cells, [(column, _position(path, column, cells)) for column in columns])
    data = chain([first], rows) if first else rows
    return data, _by_position([], [(column, _position(path, column, [])) for column in columns])


def _is_header(cells: list[str], source: str) -> bool:
    names = [cell.strip().lower() for cell in cells]
    return "target" in names and names[int(source) - 1 : int(source)] == ["source"]


def _is_number(column: str) -> bool:
    return column.isdecimal() and len(column) < 10


def _position(path: str, column: str, header: list[str]) -> int:
    if not _is_number(column):
        if column not in header:
            raise _no_column(path, column, header)
        return header.index(column)
    if int(column) == 0:
        raise SeqloomError("There is no column 0.", "columns are counted from 1")
    return int(column) - 1


def _no_column(path: str, column: str, names: list[str]) -> SeqloomError:
    there = ", ".join(names) or "none"
    return SeqloomError(
        f"{shown(path)} has no column {column!r}; its columns are: {there}.", "choose one, or a number from 1"
    )


def _by_position(header: list[str], columns: list[tuple[str, int]]) -> Pick:
    """Picks from a list; the other columns go by their header name or else by their number."""
    source, *targets = (position for _, position in columns)
    references = columns[2:]  # beyond the first target, under the names that the user wrote
    used = {position for _, position in columns}
    needed = max(used) + 1

    def pick(cells: list[str]) -> Picked:
        if len(cells) < needed:
            raise Malformed("too few columns")
        others = {name: cells[i] for name, i in references}
        if len(cells) > len(used):
            names = [*header, *map(str, range(len(header) + 1, len(cells) + 1))]
            others.update({names[i]: cell for i, cell in enumerate(cells) if i not in used})
        return Picked(cells[source], cells[targets[0]] if targets else None, others)

    return pick
