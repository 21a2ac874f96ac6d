"""Rows of tables, and the selection of cells by key in records of JSONL, Parquet and Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from seqloom.data.columns import same_column

FALLBACK_KEYS = {"1": "source", "2": "target"}


class TableRow(NamedTuple):
    """Record of a table: its first line, its raw text, and its cells (None if it is empty or malformed)."""

    line: int
    text: str
    cells: Any  # list of str (TSV, CSV) or dict (JSONL, Parquet)
    fault: str = "empty line"  # reason why there are no cells


class Malformed(Exception):
    """Malformed record; the argument is the reason for the report."""


class SelectedCells(NamedTuple):
    """Selected cells of a row."""

    source: str
    target: str | None
    others: Mapping[str, str]


CellSelector = Callable[[Any], SelectedCells]


class ColumnKeys(NamedTuple):
    """Keys of the selected columns in JSONL or Parquet."""

    source: str
    targets: Sequence[str]
    others: Sequence[str]

    @property
    def all(self) -> list[str]:
        return [self.source, *self.targets, *self.others]


def select_by_key(path: str, keys: ColumnKeys) -> CellSelector:
    """Return the selector for dicts; `others` also gets all other values, as text."""
    source, targets, others = keys
    if FALLBACK_KEYS.get(source, source) in [FALLBACK_KEYS.get(key, key) for key in targets]:
        raise same_column(path, source)

    def select(cells: Mapping[str, Any]) -> SelectedCells:
        chosen = {key: _text_at(cells, key) for key in keys.all}
        used = {FALLBACK_KEYS.get(k, k) if k not in cells else k for k in (source, *targets[:1])}
        rest = {as_text(k): as_text(v) for k, v in cells.items() if k not in used and v is not None}
        rest.update({key: chosen[key] for key in (*targets[1:], *others)})
        return SelectedCells(chosen[source], chosen[targets[0]] if targets else None, rest)

    return select


def as_text(value: Any) -> str:
    """Return a cell as text; unpaired surrogates, which UTF-8 cannot encode, are escaped."""
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


def has_key(cells: Mapping[str, Any], key: str) -> bool:
    """Return whether a record has a key."""
    try:
        _value_at(cells, key)
    except Malformed:
        return False
    return True


def _text_at(cells: Mapping[str, Any], key: str) -> str:
    value, fallback = _value_at(cells, key), FALLBACK_KEYS.get(key, key)
    if not isinstance(value, str):
        raise Malformed(f"{fallback} is not a string")
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can escape an unpaired surrogate, UTF-8 cannot encode it
        raise Malformed(f"{fallback} has an unpaired surrogate") from None
    return value
