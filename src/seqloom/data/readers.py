"""Files to examples, one at a time: tables, plain text and two line-aligned files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, zip_longest

from seqloom.data.config import DataConfig, Format, Part
from seqloom.data.lines import lines
from seqloom.data.report import DataReport
from seqloom.data.tables import SUFFIXES, rows, suffix, table_format
from seqloom.errors import SeqloomError
from seqloom.types import Example


def read_corpus(config: DataConfig, part: Part, report: DataReport) -> Iterator[Example]:
    """The examples of one part of the corpus: of tables, of two line-aligned files, or lines of text."""
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
        if config.format == "text":
            yield from read_source(path, format="text", source_column="1", report=report)
        else:
            yield from read(path, format=config.format, **columns, report=report)


def read(
    path: str, *, format: Format = "auto", source_column: str, target_column: str, report: DataReport
) -> Iterator[Example]:
    """The pairs of a table. Malformed records go to the report.

    Of several target columns (`2,3,4`) the first is the target; the others are in `columns`, as written.
    """
    for row, picked in rows(path, table_format(path, format), source_column, _names(target_column)):
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
    if target_column == "none":
        return []
    return [name.strip() for name in target_column.split(",")]


def read_source(
    path: str, *, format: Format = "auto", source_column: str, report: DataReport
) -> Iterator[Example]:
    """One example per line or record, for translating: empty and malformed ones stay, as empty sources.

    A file that is no table by its suffix is plain text.
    """
    if format == "auto":
        format = SUFFIXES.get(suffix(path), "text")
    if format == "text":
        for number, line in enumerate(lines(path), 1):
            report.total += 1
            yield Example(line, line=number, file=path)
        return
    for row, picked in rows(path, format, source_column, []):
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
