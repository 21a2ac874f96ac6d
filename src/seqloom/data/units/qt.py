"""Translation sources of Qt Linguist (TS)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seqloom.data.units.unit import (
    FUZZY,
    OBSOLETE,
    OTHER_PLURAL,
    Unit,
    code_of,
    in_languages,
    pair_unit,
)
from seqloom.data.xml_stream import child, local_name, stream_elements
from seqloom.languages import LanguagePair

if TYPE_CHECKING:
    from lxml.etree import _Element

_REASONS = {"unfinished": FUZZY, "obsolete": OBSOLETE, "vanished": OBSOLETE}


def read_ts(path: str, languages: LanguagePair | None) -> Iterator[Unit]:
    """Yield a unit for each message, and for each of its plural forms; only the last form is a pair."""
    for message in stream_elements(path, ["message"], ["context"]):
        root = message.getroottree().getroot()
        source, target = code_of(root.get("sourcelanguage")), code_of(root.get("language"))
        yield from in_languages(_units(message), source, target, languages)


def _units(message: _Element) -> Iterator[Unit]:
    line = int(message.sourceline or 0)
    source, translation = child(message, "source"), child(message, "translation")
    if source is None:
        yield Unit(line, "", fault="unit without source")
        return
    text = _text(source)
    if translation is None:
        yield pair_unit(line, text, "")
        return
    reason = _REASONS.get(translation.get("type", ""), "")
    forms = [one for one in translation if local_name(one) == "numerusform"] or [translation]
    for form in forms:
        yield pair_unit(line, text, _text(form), reason or ("" if form is forms[-1] else OTHER_PLURAL))


def _text(element: _Element) -> str:
    """Return the text of an element; of several lengths, the first, which is the longest."""
    variant = child(element, "lengthvariant")
    element = element if variant is None else variant
    return "".join(_parts(element))


def _parts(element: _Element) -> Iterator[str]:
    yield element.text or ""
    for one in element:
        if local_name(one) == "byte":  # a control character
            yield _character(one.get("value", ""))
        yield one.tail or ""


def _character(value: str) -> str:
    """Return the character with a decimal number, or a hexadecimal one after `x`."""
    try:
        code = int(value[1:], 16) if value.startswith("x") else int(value)
        return chr(code) if code < 0xD800 else ""
    except (ValueError, OverflowError):
        return ""
