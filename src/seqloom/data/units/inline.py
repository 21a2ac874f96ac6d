"""Inline elements of TMX and XLIFF as placeholders: `<x id="1"/>`, or `<g id="1">` and `</g>` around text.

Elements are numbered in the order of the source; those of the target have the number of the source element with
the same identifier. Codes of the original format inside an element are not text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from seqloom.data.xml_stream import local_name

if TYPE_CHECKING:
    from lxml.etree import _Element

_AROUND_TEXT = frozenset({"g", "pc", "hi"})
_OPENING = frozenset({"bpt", "bx", "sc"})
_CLOSING = frozenset({"ept", "ex", "ec"})
_ALONE = frozenset({"x", "ph", "it", "ut", "sub"})
_ANNOTATIONS = frozenset({"sm", "em"})
_IDENTIFIERS = ("x", "id", "i", "rid")
_MAX_DEPTH = 64


class InlineText:
    """Converter of the texts of one unit, which share their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def text(self, element: _Element) -> str:
        """Return the text of an element with placeholders."""
        return "".join(self._parts(element, Counter(), 0))

    def _parts(self, element: _Element, unnamed: Counter[str], depth: int) -> Iterator[str]:
        yield element.text or ""
        for one in element:
            name = local_name(one)
            if name == "cp":
                yield _character(one.get("hex", ""))
            elif name in _AROUND_TEXT and depth < _MAX_DEPTH:
                yield f'<g id="{self._number(one, name, unnamed)}">'
                yield from self._parts(one, unnamed, depth + 1)
                yield "</g>"
            elif name in _OPENING:
                yield f'<g id="{self._number(one, name, unnamed)}">'
            elif name in _CLOSING:
                yield "</g>"
            elif name in _ALONE:
                yield f'<x id="{self._number(one, name, unnamed)}"/>'
            elif name and name not in _ANNOTATIONS and depth < _MAX_DEPTH:  # mrk: a remark about its text
                yield from self._parts(one, unnamed, depth + 1)
            yield one.tail or ""

    def _number(self, element: _Element, name: str, unnamed: Counter[str]) -> int:
        given = next((element.get(key) for key in _IDENTIFIERS if element.get(key)), None)
        if given is None:
            unnamed[name] += 1
            given = f"{name} {unnamed[name]}"
        return self._numbers.setdefault(given, len(self._numbers) + 1)


def _character(code: str) -> str:
    """Return the control character of a `cp` element, which XML itself cannot contain."""
    try:
        character = chr(int(code, 16))
        character.encode()
    except (ValueError, OverflowError, UnicodeEncodeError):
        return ""
    return character
