"""Selection of the source and target columns of a table.

The user selects a column by its header or by its number from 1. The first row of a TSV or CSV file is a header
if a column is selected by its header, or if its cells include `source` and `target`. If a column is not
selected, the first row is also a header if all its cells are distinct well-known names, such as `id`, `english`
and `german`. Finally, it is a header if it contains no number, and an unused column has only numbers below it.

Columns that the user does not select are those with the headers `source` and `target`, or the only remaining
ones. If more remain, the user must select them, with one exception: if only a source is needed and there is no
header, the source is the first remaining column.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import NamedTuple

from seqloom.data.lines import display_name
from seqloom.errors import SeqloomError

_DELIMITERS = ",;\t"
_SHOWN_CELL = 24  # characters of a cell in an error message
_SHOWN_COLUMNS = 20  # columns in an error message
_SEEN_NUMBERS = 2  # numbers needed to recognise a numeric column

_ROLES = """
abstract action actions after answer article before body category clean code command comment complaint
completion context corrected date definition document domain email form formal formula gloss graphemes
headline heads id index informal input instruction intent ipa java javascript key label lang language lemma
line meaning message name noisy number original output paraphrase phonemes phrase prompt pronunciation python
query question ref reference reply request response row score sentence sentences simplified source split sql
src standard story subject summary tags target term text tgt ticket title transcript transcription translation
trg type uid url utterance word words
"""
_LANGUAGES = """
ar arabic bg bn bulgarian ca catalan chinese croatian cs cy czech da danish de deu dutch el en eng english eo
es esperanto estonian et eu fa farsi fi finnish fr fra fre french ga ger german gl greek he hebrew hi hindi hr
hu hungarian icelandic id indonesian is it ita italian ja japanese jpn ko korean la latin latvian lithuanian
lt lv ms nb nl nld nn no norwegian persian pl polish por portuguese pt ro romanian ru rus russian serbian sk
sl slovak slovenian spa spanish sr sv sw swahili swedish ta tamil te telugu th thai tr turkish uk ukrainian ur
urdu vi vietnamese welsh zh zho
"""
_KNOWN = frozenset(f"{_ROLES} {_LANGUAGES}".split())


@dataclass(frozen=True)
class ColumnSelection:
    """Columns that a reader needs; None is a column that the user has not selected."""

    source: str | None
    targets: Sequence[str] | None = None  # empty: no target is needed
    others: Sequence[str] = ()

    @property
    def named(self) -> list[str]:
        """All columns that the user has selected."""
        return [name for name in (self.source, *(self.targets or ()), *self.others) if name is not None]

    @property
    def is_complete(self) -> bool:
        """Whether the user has selected every column that the reader needs."""
        return self.source is not None and self.targets is not None


class ColumnPositions(NamedTuple):
    """Positions of the selected columns, from 0."""

    source: int
    targets: list[int]
    others: list[int]


@dataclass(frozen=True)
class TableLayout:
    """Header and columns of a table, derived from its first rows."""

    path: str
    header: list[str]  # empty if the table has none
    example: list[str]  # a typical row
    widest: int  # largest number of columns in a row

    @classmethod
    def of(cls, path: str, rows: Sequence[list[str]], selection: ColumnSelection) -> TableLayout:
        """Return the layout of a TSV or CSV file from its first rows that are not empty."""
        first = rows[0] if rows else []
        header = first if _has_header(first, selection) or _is_above_numbers(rows, selection) else []
        widest = max(map(len, rows), default=0)
        return cls(path, header, header or _typical(rows), widest)

    def positions(self, selection: ColumnSelection) -> ColumnPositions:
        """Return the positions of the selected columns; raise if they are ambiguous."""
        source = None if selection.source is None else self._position(selection.source)
        targets = [self._position(name) for name in selection.targets or ()]
        others = [self._position(name) for name in selection.others]
        chosen = self.completed(selection, source, targets, others)
        if chosen.source in chosen.targets:
            raise same_column(self.path, self._shown(chosen.source))
        return chosen

    def completed(
        self, selection: ColumnSelection, source: int | None, targets: list[int], others: list[int]
    ) -> ColumnPositions:
        """Complete the positions of selected columns by the rules of this module."""
        missing = ["source"] if source is None else []
        missing += ["target"] if selection.targets is None else []
        free = [i for i in range(len(self.example)) if i not in (source, *targets, *others)]
        names = {self.header[i].strip().lower(): i for i in reversed(free)} if self.header else {}
        if all(name in names for name in missing):
            found = [names[name] for name in missing]
        elif len(free) > 2 - (source is not None) - bool(targets) and not self._is_first(selection):
            raise self._unclear(free, missing)
        else:
            width = len(self.example)
            found = [*free, width, width + 1]  # rows without these columns are malformed
        if source is None:
            source = found.pop(0)
        return ColumnPositions(source, targets if selection.targets is not None else found[:1], others)

    def _is_first(self, selection: ColumnSelection) -> bool:
        """Return whether the source is the first remaining column, since only a source is needed."""
        return selection.targets is not None and not selection.targets and not self.header

    def _position(self, column: str) -> int:
        if not is_number(column):
            names = [cell.strip() for cell in self.header]
            if column.strip() not in names:
                raise no_column(self.path, column, names[:_SHOWN_COLUMNS])
            return names.index(column.strip())
        number = int(column)
        if number == 0:
            raise SeqloomError("Invalid column 0.", "columns are numbered from 1")
        if number > self.widest > 0:
            raise no_column(self.path, column, self._all_shown())
        return number - 1

    def _unclear(self, free: Sequence[int], missing: Sequence[str]) -> SeqloomError:
        texts = [i for i in free if not self._is_id(i)]
        chosen = zip(missing, texts if len(texts) >= len(missing) else free, strict=False)
        options = [f"--{role}-column {quote(self._shown(i)) if self.header else i + 1}" for role, i in chosen]
        columns = ", ".join(self._all_shown())
        return SeqloomError(
            f"{display_name(self.path)} has {len(self.example)} columns ({columns}), "
            f"so the {' and '.join(missing)} column{' is' if len(missing) == 1 else 's are'} ambiguous.",
            f"select {'it' if len(missing) == 1 else 'them'}, e.g. {' '.join(options)}"
            + ("" if self.header else "; if the first row is a header, use its names"),
        )

    def _is_id(self, position: int) -> bool:
        cell = self.example[position].strip().lower()
        return cell in ("", "id", "index", "key", "line", "number", "row", "uid") or cell.isdecimal()

    def _all_shown(self) -> list[str]:
        return [self._shown(i) for i in range(min(len(self.example), _SHOWN_COLUMNS))]

    def _shown(self, position: int) -> str:
        if position >= len(self.example):
            return str(position + 1)
        cell = self.example[position].strip()
        if self.header:
            return cell
        return f"{position + 1}: {cell[: _SHOWN_CELL - 1] + '…' if len(cell) > _SHOWN_CELL else cell}"


def is_number(column: str) -> bool:
    """Return whether a column is selected by its number."""
    return column.isdecimal() and len(column) < 10


def no_column(path: str, column: str, names: Sequence[str]) -> SeqloomError:
    """Return the error for a column that the table does not have."""
    return SeqloomError(
        f"{display_name(path)} has no column {column!r}; its columns are: {', '.join(names) or 'none'}.",
        "select one by name, or by number from 1",
    )


def same_column(path: str, column: str) -> SeqloomError:
    """Return the error for a source column that is also a target column."""
    return SeqloomError(
        f"Source and target are the same column of {display_name(path)}: {column}.",
        "select two columns with --source-column and --target-column",
    )


def delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter of a CSV file that begins with these lines.

    This is the first of comma, semicolon and tab that gives all records the same number of columns, at least
    two; otherwise it is the comma.
    """
    return next((candidate for candidate in _DELIMITERS if _is_delimiter(candidate, lines)), _DELIMITERS[0])


def _is_delimiter(candidate: str, lines: Sequence[str]) -> bool:
    try:
        records = [record for record in csv.reader(lines, delimiter=candidate) if record]
    except csv.Error:
        return False
    complete = records[:-1] or records  # the last record may continue after these lines
    widths = {len(record) for record in complete}
    return len(widths) == 1 and widths.pop() >= 2


def _has_header(cells: Sequence[str], selection: ColumnSelection) -> bool:
    names = [cell.strip().lower() for cell in cells]
    if not all(map(is_number, selection.named)):
        return True
    if not selection.is_complete:
        return _names_columns(names)
    position = int(selection.source or 1) - 1
    return "target" in names and names[position : position + 1] == ["source"]


def _names_columns(names: Sequence[str]) -> bool:
    if {"source", "target"} <= set(names):
        return True
    distinct = {name for name in names if name}  # a column of row numbers may have an empty header
    return len(distinct) > 1 and len(distinct) >= len(names) - 1 and all(map(_is_known, names))


def _is_above_numbers(rows: Sequence[list[str]], selection: ColumnSelection) -> bool:
    """Return whether the first row has no number, and an unused column has only numbers below it."""
    if len(rows) < _SEEN_NUMBERS + 1 or any(map(_is_numeric, rows[0])):
        return False
    columns = list(zip(*rows[1:], strict=False))
    if not selection.is_complete and len(columns) <= 2:
        return False  # both columns are used
    return any(
        all(map(_is_numeric, cells)) for i, cells in enumerate(columns, 1) if str(i) not in selection.named
    )


def _is_numeric(cell: str) -> bool:
    return re.fullmatch(r"[-+]?\d+(\.\d+)?", cell.strip()) is not None


def _is_known(name: str) -> bool:
    return all(word in _KNOWN for word in re.findall(r"[^\W_]+", name))


def _typical(rows: Sequence[list[str]]) -> list[str]:
    """Return the first row with the most common number of columns."""
    if not rows:
        return []
    [(width, _)] = Counter(map(len, rows)).most_common(1)
    return next(row for row in rows if len(row) == width)
