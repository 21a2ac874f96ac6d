"""Tags and text of XML and HTML, without any change: the joined pieces are the input."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence, Set
from typing import Literal, NamedTuple

from seqloom.document.segments import Atom, InPlace

Kind = Literal["text", "start", "end", "empty", "other"]

_TAG = re.compile(r"</?([A-Za-z_][^\s/>]*)(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+>")
_NAME = re.compile(r"</?[^\s/>]*")
_ATTRIBUTE = re.compile(r"([^\s=>\"'/]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+)))?")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\dA-Fa-f]{1,6}|[A-Za-z]\w{1,31});")
_LINES = re.compile(r"(?<![ \t])[ \t]*[\r\n]\s*")  # a match begins only where the white space begins
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ENDS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", ">"), ("<!", ">"))


class Attribute(NamedTuple):
    """Attribute of a tag as it is in the document."""

    name: str
    value: str
    start: int  # of the value in the tag
    quote: str  # around the value; empty if there is none


class MarkupPiece(NamedTuple):
    """Tag, text, or another part such as a comment."""

    kind: Kind
    raw: str
    name: str = ""  # of a tag, without a namespace prefix

    def attribute(self, name: str) -> str | None:
        """Return the value of an attribute, whose name may be in any letter case."""
        if name.lower() not in self.raw.lower():
            return None
        values = (one.value for one in self.attributes() if one.name.lower() == name.lower())
        value = next(values, None)
        return None if value is None else html.unescape(value)

    def attributes(self) -> Iterator[Attribute]:
        """Yield the attributes of a tag that have a value."""
        for match in _ATTRIBUTE.finditer(self.raw, _NAME.match(self.raw).end()):  # type: ignore[union-attr]
            for group, quote in ((2, '"'), (3, "'"), (4, "")):
                if match[group] is not None:
                    yield Attribute(match[1], match[group], match.start(group), quote)


def pieces(text: str) -> Iterator[MarkupPiece]:
    """Yield tags, text and other parts. A part that never ends is text up to the end, as in HTML."""
    position = 0
    while position < len(text):
        start = text.find("<", position)
        start = len(text) if start < 0 else start
        if start > position:
            yield MarkupPiece("text", text[position:start])
        if start == len(text):
            return
        piece = _piece(text, start)
        yield piece
        position = start + len(piece.raw)


def _piece(text: str, start: int) -> MarkupPiece:
    for opening, closing in _ENDS:
        if text.startswith(opening, start):
            end = text.find(closing, start + len(opening))
            return MarkupPiece("other", text[start : len(text) if end < 0 else end + len(closing)])
    match = _TAG.match(text, start)
    if match is None:
        is_tag = text[start + 1 : start + 2].isalpha() or text[start + 1 : start + 2] == "/"
        return MarkupPiece("other", text[start:]) if is_tag else MarkupPiece("text", "<")
    kind: Kind = "end" if match[0][1] == "/" else "empty" if match[0].endswith("/>") else "start"
    return MarkupPiece(kind, match[0], match[1].rpartition(":")[2])


def element(parts: Sequence[MarkupPiece], start: int) -> int:
    """Return the position after the element that begins at `start`; the end if it is not closed."""
    if parts[start].kind != "start":
        return start + 1
    depth, name = 0, parts[start].name
    for i in range(start, len(parts)):
        if parts[i].name == name:
            depth += (parts[i].kind == "start") - (parts[i].kind == "end")
        if depth == 0:
            return i + 1
    return len(parts)


def joined(parts: Sequence[MarkupPiece]) -> str:
    """Return the text of pieces."""
    return "".join(piece.raw for piece in parts)


def text_atoms(text: str, *, collapse: bool) -> Iterator[Atom]:
    """Yield the atoms of text with entities; with `collapse`, a line break is a space to the model."""
    position = 0
    for entity in _ENTITY.finditer(text):
        yield from _plain(text[position : entity.start()], collapse=collapse)
        decoded = html.unescape(entity[0])
        yield Atom(decoded if len(decoded) == 1 and decoded != "\x00" else entity[0], entity[0])
        position = entity.end()
    yield from _plain(text[position:], collapse=collapse)


def _plain(text: str, *, collapse: bool) -> Iterator[Atom]:
    position = 0
    for match in _LINES.finditer(text) if collapse else ():
        if position < match.start():
            yield Atom(text[position : match.start()], text[position : match.start()])
        yield Atom(" ", match[0], "space")
        position = match.end()
    if position < len(text):
        yield Atom(text[position:], text[position:])


class MarkupText(InPlace):
    """Text between tags."""

    def escape_character(self, character: str, plain: Set[str]) -> str:
        """Escape the characters of tags and entities; leave out characters that XML does not allow."""
        escaped = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}.get(character)
        return escaped or _CONTROL.sub("", character)
