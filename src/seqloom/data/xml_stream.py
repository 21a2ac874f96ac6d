"""Elements of XML files that may be hostile, read as a stream: no entities, no network, bounded memory."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterator
from typing import IO, TYPE_CHECKING, Any

from seqloom.data.lines import display_name, opened
from seqloom.errors import SeqloomError
from seqloom.limits import UNIT_BYTES

if TYPE_CHECKING:
    from lxml.etree import _Element

_DAMAGE = (SyntaxError, ValueError, LookupError, EOFError, gzip.BadGzipFile, zlib.error, OSError)


class _GuardedStream:
    """Stream that raises an error if too many bytes are read between two elements."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self._stream, self._path = stream, path
        self.since = 0  # bytes read since the last element

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.since += len(data)
        if self.since > UNIT_BYTES:
            raise SeqloomError(
                f"{display_name(self._path)} has a part of more than {UNIT_BYTES:,} bytes without a unit.",
                "check that the file is complete and has the format that its suffix names",
            )
        return data


def stream_elements(path: str, names: Collection[str], containers: Collection[str] = ()) -> Iterator[_Element]:
    """Yield each element with one of these local names when it ends.

    An element is valid until the next one is requested: then it is removed from the tree, as are `containers`
    when they end. The ancestors of an element and their attributes stay.
    """
    etree = load_lxml()
    yielded = set(names)
    try:
        with opened(path) as stream:
            guarded = _GuardedStream(stream, path)
            events = etree.iterparse(
                guarded,
                events=("end",),
                tag=[f"{{*}}{name}" for name in (*names, *containers)],
                resolve_entities=False,
                no_network=True,
                load_dtd=False,
                huge_tree=False,
            )
            is_checked = False
            for _, element in events:
                if not is_checked:
                    check_no_entities(element.getroottree(), path)
                    is_checked = True
                if local_name(element) in yielded:
                    yield element
                guarded.since = 0
                _forget(element)
    except _DAMAGE as error:
        reason = str(error).partition("\n")[0] or "it is empty"
        raise SeqloomError(
            f"{display_name(path)} is not valid XML: {reason}.",
            "check the file with xmllint --noout; if it is no XML at all, set data.format",
        ) from error


def _forget(element: _Element) -> None:
    """Remove an element's content, and all siblings before it."""
    element.clear()
    parent = element.getparent()
    if parent is not None:
        while element.getprevious() is not None:
            del parent[0]


def check_no_entities(tree: Any, path: str) -> None:
    """Raise if a document declares entities: they can expand to gigabytes or name other files."""
    subset = tree.docinfo.internalDTD
    if subset is not None and any(True for _ in subset.iterentities()):
        raise SeqloomError(
            f"{display_name(path)} declares XML entities, which can read other files or exhaust the memory.",
            "remove the <!ENTITY> declarations",
        )


def local_name(element: _Element) -> str:
    """Return the name of an element without its namespace; empty for comments and instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def child(element: _Element, name: str) -> _Element | None:
    """Return the first child with this local name."""
    return next((one for one in element if local_name(one) == name), None)


def load_lxml() -> Any:
    """Return lxml.etree; raise an error that names the extra if it is not installed."""
    try:
        from lxml import etree
    except ImportError as error:
        raise SeqloomError(
            "Reading XML needs the library lxml, which is not installed.", "pip install 'seqloom[documents]'"
        ) from error
    return etree
