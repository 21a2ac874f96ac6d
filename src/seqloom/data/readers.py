"""Files to examples, one at a time: TSV, CSV, JSONL, Parquet, plain text and two line-aligned files.

Which columns: a name needs a header row (TSV, CSV) or is a key (JSONL, Parquet; `translation.en` reaches into
nested objects). A number counts from 1. When all are numbers, a TSV or CSV file has no header, unless its first
row says literally `source` in the source column and `target` in another one. For JSONL and Parquet, 1 and 2 are
the keys `source` and `target`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from seqloom.data.config import DataConfig, Format, Part
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError
from seqloom.types import Example

SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
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


def read_corpus(config: DataConfig, part: Part, report: DataReport) -> Iterator[Example]:
    """The pairs of one part of the corpus, from tables or from two line-aligned files."""
    train = part == "train"
    source, target = (config.source, config.target) if train else (config.valid_source, config.valid_target)
    if not config.has(part):
        raise SeqloomError(
            f"No {part} data is given.", f"name tables of pairs (data.{part}) or two aligned files"
        )
    if source is not None and target is not None:
        yield from read_parallel(source, target, report)
    columns = {"source_column": config.source_column, "target_column": config.target_column}
    for path in config.train if train else config.valid:
        yield from read(path, format=config.format, **columns, report=report)


def read(
    path: str, *, format: Format = "auto", source_column: str, target_column: str, report: DataReport
) -> Iterator[Example]:
    """The pairs of a table. Malformed records go to the report.

    Of several target columns (`2,3,4`) the first is the target; the others are in `columns`, as written.
    """
    for row, picked in _rows(path, _table_format(path, format), source_column, _names(target_column)):
        report.total += 1
        if isinstance(picked, str):
            report.drop(Example(row.text, line=row.line, file=path), picked)
        else:
            yield Example(picked.source, picked.target, row.line, path, picked.others)


def references(example: Example, target_column: str) -> list[str]:
    """The targets of an example in the order of its target columns."""
    first = [] if example.target is None else [example.target]
    return first + [example.columns[name] for name in _names(target_column)[1:]]


def _names(target_column: str) -> list[str]:
    return [name.strip() for name in target_column.split(",")]


def read_source(
    path: str, *, format: Format = "auto", source_column: str, report: DataReport
) -> Iterator[Example]:
    """One example per line or record, for translating: empty and malformed ones stay, as empty sources.

    A file that is no table by its suffix is plain text.
    """
    if format == "auto":
        format = SUFFIXES.get(_suffix(path), "text")
    if format == "text":
        for number, line in enumerate(lines(path), 1):
            report.total += 1
            yield Example(line, line=number, file=path)
        return
    for row, picked in _rows(path, format, source_column, []):
        report.total += 1
        if isinstance(picked, str):
            example = Example(row.text, line=row.line, file=path)
            report.change(example, picked)
            yield replace(example, source="")
        else:
            yield Example(picked.source, None, row.line, path, picked.others)


def read_parallel(source: str, target: str, report: DataReport) -> Iterator[Example]:
    """The pairs of two files whose lines belong together; different lengths are an error."""
    if source == target == "-":
        raise SeqloomError("Source and target cannot both be standard input.", "name a file for one of them")
    sources, targets = lines(source), lines(target)
    number = 0
    for number, (left, right) in enumerate(zip_longest(sources, targets), 1):
        if left is None or right is None:
            rest = number + sum(1 for _ in chain(sources, targets))
            counts = (number - 1, rest) if left is None else (rest, number - 1)
            raise SeqloomError(
                f"{source} has {counts[0]:,} lines, but {target} has {counts[1]:,}.",
                "line-aligned files must be equally long; find where they part",
            )
        report.total += 1
        yield Example(left, right, number, source)


def lines(path: str) -> Iterator[str]:
    """The lines of a text file without their ends. Only a line feed ends a line, perhaps after a return."""
    for line in _raw_lines(path):
        yield line.removesuffix("\n").removesuffix("\r")


# Bytes and characters


def _raw_lines(path: str) -> Iterator[str]:
    number = 0
    try:
        with _opened(path) as stream:
            for number, raw in enumerate(stream, 1):
                text = raw.decode()
                yield text.removeprefix("\ufeff") if number == 1 else text  # a byte order mark is no text
    except UnicodeDecodeError as error:
        raise SeqloomError(
            f"{_shown(path)}, line {number}: byte {error.start + 1} (0x{error.object[error.start]:02x}) is not "
            "valid UTF-8.",
            "convert the file, e.g. iconv -f latin1 -t utf-8 (or -f utf-16)",
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SeqloomError(
            f"{_shown(path)} is a damaged or incomplete gz file: it breaks off after line {number}.",
            "fetch or compress the file again",
        ) from error


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a file or of standard input, unpacked when they are gzip (told by its first two bytes)."""
    if path == "-":
        yield _unpacked(sys.stdin.buffer)
        return
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 (closed below; here only opening may fail)
    except OSError as error:
        raise _cannot_read(path, error) from error
    with stream:
        yield _unpacked(stream)


def _unpacked(stream: IO[bytes]) -> IO[bytes]:
    peekable = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(Any, stream))
    packed = peekable.peek(2)[:2] == b"\x1f\x8b"
    return cast(IO[bytes], gzip.GzipFile(fileobj=peekable) if packed else peekable)


def _cannot_read(path: str, error: OSError) -> SeqloomError:
    if isinstance(error, FileNotFoundError):
        return SeqloomError(f"There is no file {path}.", "check the path")
    if isinstance(error, IsADirectoryError):
        return SeqloomError(f"{path} is a folder, not a file.", "name the file in it")
    return SeqloomError(
        f"{path} cannot be read: {error.strerror or error}.", "check the file and its permissions"
    )


def _shown(path: str) -> str:
    return "standard input" if path == "-" else path


# Formats


def _suffix(path: str) -> str:
    name = Path(path).name.lower().removesuffix(".gz")
    return "" if path == "-" else Path(name).suffix


def _table_format(path: str, format: Format) -> Format:
    """The format of a table of pairs; without a telling suffix it is TSV."""
    if format == "auto":
        suffix = _suffix(path)
        format = "tsv" if suffix in ("", ".txt") else SUFFIXES.get(suffix, "text")
    if format == "text":
        raise SeqloomError(
            f"{_shown(path)} is no table of pairs that can be told by its name (TSV, CSV, JSONL, Parquet).",
            "say data.format=tsv (csv, jsonl, parquet), or give two aligned text files as source and target",
        )
    return format


def _rows(path: str, format: Format, source: str, targets: list[str]) -> Iterator[tuple[Row, Picked | str]]:
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
        for line in _raw_lines(path):
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
        with _opened(path):  # gives the usual sentences for a missing file or a folder
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
    if column.isdecimal() and 1 <= int(column) <= len(names):
        return names[int(column) - 1]
    raise _no_column(path, column, names)


# Columns


def _by_key(source: str, targets: list[str]) -> Pick:
    """Picks from a dict; the other columns are what else is in it, as text."""

    def pick(cells: Mapping[str, Any]) -> Picked:
        chosen = [_text_at(cells, key) for key in (source, *targets)]
        used = {FALLBACK_KEYS.get(k, k) if k not in cells else k for k in (source, *targets[:1])}
        others = {k: _as_text(v) for k, v in cells.items() if k not in used and v is not None}
        others.update(zip(targets[1:], chosen[2:], strict=True))
        return Picked(chosen[0], chosen[1] if targets else None, others)

    return pick


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


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
    if not all(column.isdecimal() for column in columns) or _is_header(cells, source):
        return rows, _by_position(cells, [(column, _position(path, column, cells)) for column in columns])
    data = chain([first], rows) if first else rows
    return data, _by_position([], [(column, _position(path, column, [])) for column in columns])


def _is_header(cells: list[str], source: str) -> bool:
    names = [cell.strip().lower() for cell in cells]
    return "target" in names and names[int(source) - 1 : int(source)] == ["source"]


def _position(path: str, column: str, header: list[str]) -> int:
    if not column.isdecimal():
        if column not in header:
            raise _no_column(path, column, header)
        return header.index(column)
    if int(column) == 0:
        raise SeqloomError("There is no column 0.", "columns are counted from 1")
    return int(column) - 1


def _no_column(path: str, column: str, names: list[str]) -> SeqloomError:
    there = ", ".join(names) or "none"
    return SeqloomError(
        f"{_shown(path)} has no column {column!r}; its columns are: {there}.", "choose one, or a number from 1"
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
