"""Uncompressed page sizes of a Parquet file, read from the page headers.

The footer also has sizes, but they may be forged, and readers use those of the headers. A header is a Thrift
structure in the compact protocol: github.com/apache/parquet-format, PageHeader.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_DICTIONARY_PAGE = 2
_PREFIX_ENCODING = "DELTA_BYTE_ARRAY"  # a cell may repeat the prefix of the previous one


class PageSizes(NamedTuple):
    """Largest uncompressed page sizes in bytes."""

    largest_page: int = 0
    largest_repeated: int = 0  # of pages whose bytes may occur in many cells


def unpacked_sizes(path: str, metadata: Any, columns: set[str]) -> PageSizes:
    """Return the largest page sizes of these columns; `metadata` is that of pyarrow."""
    sizes = PageSizes()
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for chunk in map(group.column, range(group.num_columns)):
                name = chunk.path_in_schema
                if name not in columns and name.split(".")[0] not in columns:
                    continue
                for kind, size in _pages(content, *_extent(chunk)):
                    repeated = kind == _DICTIONARY_PAGE or _PREFIX_ENCODING in chunk.encodings
                    sizes = PageSizes(max(sizes[0], size), max(sizes[1], size if repeated else 0))
    return sizes


def _extent(chunk: Any) -> tuple[int, int]:
    """Return the offset of the first byte of a column chunk, and of the byte after its last one."""
    offsets = (chunk.dictionary_page_offset, chunk.data_page_offset)
    start = max(0, min((offset for offset in offsets if offset), default=0))
    return start, start + chunk.total_compressed_size


def _pages(content: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the type and the uncompressed size of each page; stop at an invalid header."""
    while start < min(end, len(content)):
        reader = _CompactReader(content, start)
        try:
            header = reader.integers()
        except (IndexError, RecursionError):
            return
        if 2 not in header or header.get(3, -1) < 0:
            return
        yield header.get(1, 0), header[2]
        start = reader.offset + header[3]


class _CompactReader:
    """Reader of the subset of Thrift's compact protocol that page headers use."""

    def __init__(self, content: mmap.mmap, offset: int) -> None:
        self._content, self.offset = content, offset

    def integers(self) -> dict[int, int]:
        """Read a structure and return its integers by field number."""
        found, field = dict[int, int](), 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._integer()
            if (kind := head & 15) in (4, 5, 6):
                found[field] = self._integer()
            else:
                self._skip(kind)
        return found

    def _byte(self) -> int:
        self.offset += 1
        return self._content[self.offset - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise IndexError("number too long")
        return value | byte << shift

    def _integer(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)

    def _skip(self, kind: int) -> None:
        """Skip a value that is not an integer: a boolean, a fixed-size number, a string or a structure."""
        if kind == 12:
            self.integers()
        elif kind in (3, 7, 8):
            self.offset += {3: 1, 7: 8}.get(kind) or self._unsigned()
        elif kind not in (1, 2):
            raise IndexError("unexpected type in a page header")
