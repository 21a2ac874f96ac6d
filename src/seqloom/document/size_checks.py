"""Errors for documents that are too large: their pieces are kept in memory."""

from __future__ import annotations

from seqloom.data.lines import display_name
from seqloom.errors import SeqloomError
from seqloom.limits import DOCUMENT_SEGMENTS, DOCUMENT_TAGS


def check_size(size: int, name: str, most: int) -> None:
    """Raise an error if a document or a part of it has more bytes than this."""
    if size > most:
        raise _too_large(name, most, "bytes")


def check_tags(content: bytes | str, name: str) -> None:
    """Raise an error if a document in XML or HTML has too many tags."""
    found = content.count("<") if isinstance(content, str) else content.count(b"<")
    if found > DOCUMENT_TAGS:
        raise _too_large(name, DOCUMENT_TAGS, "tags")


def check_segments(count: int, name: str) -> None:
    """Raise an error if a document has too many segments, with the gaps between them."""
    if count > DOCUMENT_SEGMENTS:
        raise _too_large(name, DOCUMENT_SEGMENTS, "segments")


def _too_large(name: str, most: int, what: str) -> SeqloomError:
    return SeqloomError(f"{display_name(name)} has more than {most:,} {what}.", "split it into smaller files")
