"""HTML: text of all elements but code and scripts, and of some attributes; all else stays unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seqloom.document.formats.attributes import with_texts
from seqloom.document.formats.base import TextFormat
from seqloom.document.formats.inner_texts import InnerTexts, with_inner_texts
from seqloom.document.formats.tags import MarkupPiece, MarkupText, element, joined, pieces, text_atoms
from seqloom.document.segments import Atom, Block
from seqloom.document.segments import raw as joined_atoms
from seqloom.document.size_checks import check_tags

_INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "input",
        "ins",
        "label",
        "mark",
        "q",
        "rp",
        "rt",
        "ruby",
        "s",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "wbr",
    ]
)
_VOID = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    ]
)
_CODE = frozenset(["code", "kbd", "samp", "var", "svg", "math", "audio", "video", "canvas", "object", "iframe"])
_SKIPPED = frozenset(["script", "style", "pre", "textarea", "template", "xmp", "noembed", "noframes"])
_RAW_TEXT = frozenset(["script", "style", "textarea", "xmp", "noembed", "noframes", "iframe"])
_WRITER = MarkupText()


class _Paragraph:
    """Text between two tags that are not inline, or one such tag."""

    def __init__(self) -> None:
        self._line = 0  # of its first piece
        self._atoms: list[Atom] = []
        self._inner: dict[str, InnerTexts] = {}

    def add(self, line: int, piece: MarkupPiece, raw: str) -> None:
        """Add text, a tag, or an element that stays unchanged."""
        self._line = self._line or line
        is_tag = piece.kind in ("start", "empty")
        if is_tag and not _is_kept(piece):
            texts = InnerTexts([*with_texts(piece, f"line {line}"), raw[len(piece.raw) :]])
            if texts.blocks:
                self._inner[raw] = texts
        self._atoms += _atoms(piece, raw) if raw == piece.raw else [Atom("", raw, "single")]

    def blocks(self) -> Iterator[str | Block]:
        """Yield the blocks, and begin anew."""
        if self._inner or any(not atom.is_tag for atom in self._atoms):
            block = Block(tuple(self._atoms), f"line {self._line}", _WRITER)
            yield from with_inner_texts(block, self._inner)
        else:
            yield joined_atoms(self._atoms)
        self._line, self._atoms, self._inner = 0, [], {}


class Html(TextFormat):
    """HTML."""

    declaration = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w:.-]+)", re.IGNORECASE)
    escapes = "xmlcharrefreplace"

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for the text between two tags that are not inline, and for each attribute with text."""
        check_tags(text, name)
        parts, i, line, paragraph = list(pieces(text)), 0, 1, _Paragraph()
        while i < len(parts):
            piece, end = parts[i], _end(parts, i)
            raw = joined(parts[i:end])
            if not _is_inline(piece):
                yield from paragraph.blocks()
            paragraph.add(line, piece, raw)
            if not _is_inline(piece):
                yield from paragraph.blocks()
            line += raw.count("\n")
            i = end
        yield from paragraph.blocks()


def _is_inline(piece: MarkupPiece) -> bool:
    name = piece.name.lower()
    is_element = piece.kind in ("start", "empty") and (name in _CODE or name == "script")
    return piece.kind in ("text", "other") or name in _INLINE or is_element


def _is_kept(piece: MarkupPiece) -> bool:
    """Return whether an element is marked as not to be translated."""
    return piece.attribute("translate") == "no" or "notranslate" in (piece.attribute("class") or "").split()


def _end(parts: list[MarkupPiece], start: int) -> int:
    """Return the end of an element whose content stays unchanged; otherwise of its first tag."""
    tag, name = parts[start], parts[start].name.lower()
    if tag.kind != "start" or name in _VOID or not (name in _CODE or name in _SKIPPED or _is_kept(tag)):
        return start + 1
    if name not in _RAW_TEXT:
        return element(parts, start)
    ends = (
        i + 1 for i in range(start + 1, len(parts)) if parts[i].kind == "end" and parts[i].name.lower() == name
    )
    return next(ends, len(parts))


def _atoms(piece: MarkupPiece, raw: str) -> Iterator[Atom]:
    name = piece.name.lower()
    if piece.kind == "text":
        yield from text_atoms(raw, collapse=True)
    elif piece.kind in ("other", "empty") or name in _VOID:
        yield Atom("", raw, "single")
    else:
        yield Atom("", raw, "open" if piece.kind == "start" else "close", name)


FORMAT = Html()
