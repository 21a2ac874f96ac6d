"""XML from files that may be hostile: no entities, no DTD, no network, no unlimited depth or size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqloom.data.lines import cannot_read, display_name
from seqloom.errors import SeqloomError
from seqloom.limits import DOCUMENT_BYTES

if TYPE_CHECKING:
    from lxml.etree import _Element, _ElementTree


def parse_xml(path: str) -> _Element:
    """Return the root element of an XML file."""
    return parse_xml_bytes(read_bytes(path), path).getroot()


def read_bytes(path: str) -> bytes:
    """Return the bytes of a document; raise if it is too large."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(DOCUMENT_BYTES + 1)
    except OSError as error:
        raise cannot_read(path, error) from error
    if len(data) > DOCUMENT_BYTES:
        raise SeqloomError(f"{path} has more than {DOCUMENT_BYTES:,} bytes.", "split it into smaller files")
    return data


def parse_xml_bytes(data: bytes, path: str) -> _ElementTree:
    """Return the tree of an XML document; raise for malformed XML, and for a document type with entities.

    Entities are refused rather than left unresolved: they can expand to gigabytes or name other files.
    """
    etree = load_lxml()
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, strip_cdata=False
    )
    try:
        tree = etree.ElementTree(etree.fromstring(data, parser))
    except (etree.XMLSyntaxError, ValueError) as error:
        reason = str(error).partition("\n")[0] or "it is empty"
        raise SeqloomError(
            f"{display_name(path)} is not valid XML: {reason}.",
            "check the file with xmllint --noout",
        ) from error
    subset = tree.docinfo.internalDTD
    if subset is not None and any(True for _ in subset.iterentities()):
        raise SeqloomError(
            f"{display_name(path)} declares XML entities, which can read other files or exhaust the memory.",
            "remove the <!ENTITY> declarations",
        )
    return tree


def local_name(element: _Element) -> str:
    """Return the name of an element without its namespace; empty for comments and instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def load_lxml() -> Any:
    """Return lxml.etree; raise an error that names the extra if it is not installed."""
    try:
        from lxml import etree
    except ImportError as error:
        raise SeqloomError(
            "Reading XML needs the library lxml, which is not installed.", "pip install 'seqloom[documents]'"
        ) from error
    return etree
