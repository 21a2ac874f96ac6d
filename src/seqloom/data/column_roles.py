"""The roles of the columns of a table without a header: pairs, feature tags, or metadata."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_BUNDLE = re.compile(r"[A-Z0-9][\w.+/{}-]*(?:[;|][\w.+/{}-]+)*")  # V;IND;PST;2;PL, as in UniMorph
_MAX_TAGS = 256  # distinct tags of a column of tags at most
_MIN_PREFIX = 8  # characters that all cells of metadata have in common at the beginning
_MAX_LABELS = 0.01  # distinct cells of metadata, as a share of the rows


class ColumnRoles(NamedTuple):
    """The columns of pairs and of their tags, numbered from 1."""

    source: int
    target: int
    tags: int | None


def column_roles(rows: Sequence[Sequence[str]]) -> ColumnRoles | None:
    """Return the roles if they are clear: two columns of text, and beside them only tags and metadata."""
    width = len(rows[0]) if rows else 0
    if width < 3 or any(len(row) != width for row in rows):
        return None
    columns = list(zip(*rows, strict=True))
    tags = [number for number, cells in enumerate(columns, 1) if has_feature_tags(cells)]
    texts = [
        number for number, cells in enumerate(columns, 1) if number not in tags and not _is_metadata(cells)
    ]
    if len(texts) != 2 or len(tags) > 1:
        return None
    return ColumnRoles(texts[0], texts[1], tags[0] if tags else None)


def has_feature_tags(cells: Sequence[str]) -> bool:
    """Return whether cells are bundles of tags, such as `V;IND;PST;2;PL`."""
    if not all(_BUNDLE.fullmatch(cell) for cell in cells) or not any(
        ";" in cell or "|" in cell for cell in cells
    ):
        return False
    return len({tag for cell in cells for tag in split_tags(cell)}) <= _MAX_TAGS


def split_tags(cell: str) -> list[str]:
    """Return the tags of a bundle."""
    return [tag for tag in re.split(r"[;|\s]+", cell) if tag]


def with_tags(source: str, cell: str) -> str:
    """Return the source after its tags, each a symbol of its own: `<V> <PST> go`."""
    return " ".join((*(f"<{tag}>" for tag in split_tags(cell)), source))


def _is_metadata(cells: Sequence[str]) -> bool:
    """Return whether cells have a long common beginning, such as a licence, or a few distinct values."""
    beginnings = {cell[:_MIN_PREFIX] for cell in cells}
    if len(beginnings) == 1 and len(cells[0]) >= _MIN_PREFIX:
        return True
    return len(set(cells)) <= max(1, _MAX_LABELS * len(cells))
