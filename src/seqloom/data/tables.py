"""The rows of a table with the columns of a selection: TSV, CSV, JSONL, Parquet.

A column of JSONL or Parquet is a key; `translation.en` reaches into nested objects. In JSONL the keys `source`
and `target` are also the columns 1 and 2, and those that are not named. `seqloom.data.columns` has the rule for
the other formats.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from seqloom.data.columns import (
    ColumnPositions,
    ColumnSelection,
    TableLayout,
    delimiter,
    is_number,
    no_column,
    same_column,
)
from seqloom.data.config import Format
from seqloom.data.lines import lines, opened, raw_lines, shown
from seqloom.data.parquet_pages import unpacked_sizes
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
    ".conllu": "conllu",
}
FALLBACK_KEYS = {"1": "source", "2": "target"}
_TOO_WIDE = f"more than {COLUMNS:,} columns"
_PARQUET_ROWS = 1024  # that are read together, unless they may be large
_LOOKED_AT = 10  # lines that show a table's delimiter, header and columns

Item = TypeVar("Item")


class TableRow(NamedTuple):
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


class ColumnKeys(NamedTuple):
    """The columns of a selection in JSONL or Parquet."""

    source: str
    targets: Sequence[str]
    others: Sequence[str]

    @property
    def all(self) -> list[str]:
        return [self.source, *self.targets, *self.others]


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


def rows(path: str, format: Format, selection: ColumnSelection) -> Iterator[tuple[TableRow, Picked | str]]:
    """Every row of a table with the selected columns, or with the reason why it has none."""
    if format == "jsonl":
        rows, pick = _json_table(path, selection)
    elif format == "parquet":
        rows, pick = _parquet_table(path, selection)
    else:
        rows, pick = _delimited_table(path, format, selection)
    for row in rows:
        try:
            yield row, pick(row.cells) if row.cells is not None else row.fault
        except Malformed as fault:
            yield row._replace(text=row.text or _as_text(row.cells)), str(fault)


def _tsv_rows(path: str) -> Iterator[TableRow]:
    for number, line in enumerate(lines(path), 1):
        if line.count("\t") >= COLUMNS:
            yield TableRow(number, line, None, _TOO_WIDE)
        else:
            yield TableRow(number, line, line.split("\t") if line else None)


def _csv_rows(path: str) -> Iterator[TableRow]:
    taken: list[str] = []  # the physical lines of the record at hand: a quoted cell may hold line ends
    first, physical = _ahead(path, raw_lines(path))

    def taking() -> Iterator[str]:
        for line in physical:
            taken.append(line)
            yield line

    reader = csv.reader(taking(), delimiter=delimiter(first), strict=True)
    start = 1
    while True:
        taken.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:  # a stray quote may have swallowed many lines: each of them is listed
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


def _json_table(path: str, selection: ColumnSelection) -> tuple[Iterator[TableRow], Pick]:
    """The records of a JSONL file and how to pick from them; one of the first must have each key."""
    targets = ["target"] if selection.targets is None else selection.targets
    keys = ColumnKeys(selection.source or "source", targets, selection.others)
    first, rows = _ahead(path, _json_rows(path))
    records = [row.cells for row in first if row.cells is not None]
    for key in keys.all:
        if records and not any(_has(record, key) for record in records):
            raise no_column(path, key, list(records[0]))
    return rows, _by_key(path, keys)


def _parquet_table(path: str, selection: ColumnSelection) -> tuple[Iterator[TableRow], Pick]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        hint = "pip install 'seqloom[data]'"
        raise SeqloomError(f"Reading {path} needs pyarrow, which is not installed.", hint) from error
    if path == "-" or is_special(path):
        raise SeqloomError(f"Parquet cannot be read from {shown(path)}, which is a stream.", "name a file")
    damage = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
    try:
        with opened(path):  # gives the usual sentences for a missing file or a folder
            table = parquet.ParquetFile(path)
    except damage as error:
        raise SeqloomError(f"{path} is not a Parquet file.", "check the file, or data.format") from error
    schema = table.schema_arrow
    keys = _parquet_keys(path, selection, schema.names)
    roots = {_root(key, schema.names) for key in keys.all}
    wanted = [f.name for f in schema if f.name in roots or str(f.type) in ("string", "large_string")]
    try:
        batch_size = _parquet_batch_size(path, table.metadata, set(wanted))
    except damage as error:  # e.g. the name of a column that is not UTF-8
        raise SeqloomError(f"The footer of {path} is damaged.", "fetch or write it again") from error

    def rows() -> Iterator[TableRow]:
        number = 0
        try:
            for batch in table.iter_batches(batch_size=batch_size, columns=wanted):
                for cells in batch.to_pylist():
                    number += 1
                    yield TableRow(number, "", cells)
        except damage as error:
            raise SeqloomError(f"{path} is damaged after row {number}.", "fetch or write it again") from error

    return rows(), _by_key(path, keys)


def _parquet_batch_size(path: str, metadata: Any, columns: set[str]) -> int:
    """Return how many rows are read together; raise an error if a page unpacks to too much."""
    sizes = unpacked_sizes(path, metadata, columns)
    if sizes.largest_page > PARQUET_PAGE_BYTES:
        raise SeqloomError(
            f"{path} has a page that unpacks to {sizes.largest_page:,} bytes; the limit is "
            f"{PARQUET_PAGE_BYTES:,}.",
            "write the file with smaller pages or row groups",
        )
    return max(1, min(_PARQUET_ROWS, PARQUET_BATCH_BYTES // max(1, sizes.largest_repeated)))


def _parquet_keys(path: str, selection: ColumnSelection, names: list[str]) -> ColumnKeys:
    """The keys of a selection, also of the columns that are not named."""

    def keys(columns: Sequence[str]) -> list[str]:
        return [_parquet_key(path, column, names) for column in columns]

    def places(keys: Sequence[str]) -> list[int]:
        return [names.index(_root(key, names)) for key in keys]

    source, targets = keys([selection.source] if selection.source else []), keys(selection.targets or ())
    others = keys(selection.others)
    chosen = TableLayout(path, names, names, len(names)).completed(
        selection, next(iter(places(source)), None), places(targets), places(others)
    )
    if max(chosen.source, *chosen.targets, 0) >= len(names):
        raise no_column(path, "target", names)
    found = [names[i] for i in (chosen.source, *chosen.targets)]
    return ColumnKeys((source or found)[0], targets or found[1:], others)


def _root(key: str, names: Sequence[str]) -> str:
    """The column that a key is in."""
    return key if key in names else key.split(".")[0]


def _parquet_key(path: str, column: str, names: list[str]) -> str:
    for key in (column, FALLBACK_KEYS.get(column, column)):
        if key in names or key.split(".")[0] in names:
            return key
    if is_number(column) and 1 <= int(column) <= len(names):
        return names[int(column) - 1]
    raise no_column(path, column, names)


# Columns


def _by_key(path: str, keys: ColumnKeys) -> Pick:
    """Picks from a dict; the other columns are what else is in it, as text."""
    source, targets, others = keys
    if FALLBACK_KEYS.get(source, source) in [FALLBACK_KEYS.get(key, key) for key in targets]:
        raise same_column(path, source)

    def pick(cells: Mapping[str, Any]) -> Picked:
        chosen = {key: _text_at(cells, key) for key in keys.all}
        used = {FALLBACK_KEYS.get(k, k) if k not in cells else k for k in (source, *targets[:1])}
        rest = {_as_text(k): _as_text(v) for k, v in cells.items() if k not in used and v is not None}
        rest.update({key: chosen[key] for key in (*targets[1:], *others)})
        return Picked(chosen[source], chosen[targets[0]] if targets else None, rest)

    return pick


def _as_text(value: Any) -> str:
    """What a cell says; half a surrogate pair, which UTF-8 cannot spell, as JSON spells it."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        raise Malformed("a cell is nested too deeply") from None
    return text.encode(errors="backslashreplace").decode()


def _value_at(cells: Mapping[str, Any], key: str) -> Any:
    value: Any = cells
    fallback = FALLBACK_KEYS.get(key, key)
    for name in [key] if key in cells else [fallback] if fallback in cells else key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise Malformed(f"no key {fallback}")
        value = value[name]
    return value


def _has(cells: Mapping[str, Any], key: str) -> bool:
    try:
        _value_at(cells, key)
    except Malformed:
        return False
    return True


def _text_at(cells: Mapping[str, Any], key: str) -> str:
    value, fallback = _value_at(cells, key), FALLBACK_KEYS.get(key, key)
    if not isinstance(value, str):
        raise Malformed(f"{fallback} is not a text")
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can spell half a surrogate pair, UTF-8 cannot
        raise Malformed(f"{fallback} has half a surrogate pair") from None
    return value


def _delimited_table(path: str, format: Format, selection: ColumnSelection) -> tuple[Iterator[TableRow], Pick]:
    """The data rows of a TSV or CSV file and how to pick from them, decided by a look at the first rows."""
    first, rows = _ahead(path, _tsv_rows(path) if format == "tsv" else _csv_rows(path))
    layout = TableLayout.of(path, [row.cells for row in first if row.cells], selection)
    if layout.header:
        rows = _without_header(rows)
    return rows, _by_position(layout.header, selection, layout.positions(selection))


def _without_header(rows: Iterator[TableRow]) -> Iterator[TableRow]:
    """The rows without the first one that has cells."""
    for row in rows:
        if row.cells:
            break
        yield row
    yield from rows


def _ahead(path: str, items: Iterator[Item]) -> tuple[list[Item], Iterator[Item]]:
    """The first items of a file, and all of them.

    Of a pipe it is one item: the process that writes to it may wait for the output of its first line.
    """
    first = list(islice(items, _LOOKED_AT if path != "-" and os.path.isfile(path) else 1))
    return first, chain(first, items)


def _by_position(header: list[str], selection: ColumnSelection, positions: ColumnPositions) -> Pick:
    """Picks from a list; the other columns go by their header name or else by their number."""
    source, targets, others = positions
    named = dict(zip((selection.targets or ())[1:], targets[1:], strict=False))
    named.update(zip(selection.others, others, strict=True))
    used = {source, *targets, *others}
    needed = max(used) + 1

    def pick(cells: list[str]) -> Picked:
        if len(cells) < needed:
            raise Malformed("too few columns")
        others = {name: cells[i] for name, i in named.items()}  # under the names that the user wrote
        if len(cells) > len(used):
            names = [*header, *map(str, range(len(header) + 1, len(cells) + 1))]
            others.update({names[i]: cell for i, cell in enumerate(cells) if i not in used})
        return Picked(cells[source], cells[targets[0]] if targets else None, others)

    return pick
