"""XML from files that may be hostile: no entities, no DTD, no network, no unlimited depth or size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.data.lines import cannot_read, display_name
from seqloom.data.xml_stream import check_no_entities, load_lxml, local_name
from seqloom.document.size_checks import check_size, check_tags
from seqloom.errors import SeqloomError
from seqloom.limits import DOCUMENT_BYTES

if TYPE_CHECKING:
    from lxml.etree import _Element, _ElementTree

__all__ = ["load_lxml", "local_name", "parse_xml", "parse_xml_bytes", "read_bytes"]


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
    check_size(len(data), path, DOCUMENT_BYTES)
    return data


def parse_xml_bytes(data: bytes, path: str) -> _ElementTree:
    """Return the tree of an XML document; raise for malformed XML, and for a document type with entities.

    Entities are refused rather than left unresolved: they can expand to gigabytes or name other files.
    """
    check_tags(data, path)
    etree = load_lxml()
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, strip_cdata=False
    )
    try:
        tree: _ElementTree = etree.ElementTree(etree.fromstring(data, parser))
    except (etree.XMLSyntaxError, ValueError) as error:
        reason = str(error).partition("\n")[0] or "it is empty"
        raise SeqloomError(
            f"{display_name(path)} is not valid XML: {reason}.",
            "check the file with xmllint --noout",
        ) from error
    check_no_entities(tree, path)
    return tree
