"""HTML: text of all elements but code and scripts; tags, attributes and comments stay unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seqloom.document.formats.base import TextFormat
from seqloom.document.formats.tags import MarkupPiece, MarkupText, element, joined, pieces, text_atoms
from seqloom.document.segments import Atom, Block

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


class Html(TextFormat):
    """HTML."""

    declaration = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w:.-]+)", re.IGNORECASE)
    escapes = "xmlcharrefreplace"

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for the text between two tags that are not inline."""
        parts, atoms = list(pieces(text)), list[Atom]()
        i, line = 0, 1
        begun = 1  # line of the block
        while i < len(parts):
            piece, end = parts[i], i + 1
            lowered = piece.name.lower()
            if piece.kind in ("start", "empty") and (
                lowered in _CODE or lowered in _SKIPPED or _is_kept(piece)
            ):
                end = _skipped(parts, i)
                raw = joined(parts[i:end])
                is_inline = lowered in _CODE or lowered in _INLINE or lowered == "script"
            else:
                raw = piece.raw
                is_inline = piece.kind in ("text", "other") or lowered in _INLINE
            if is_inline:
                begun = begun if atoms else line
                atoms += _atoms(piece, raw) if end == i + 1 else [Atom("", raw, "single")]
            else:
                if atoms:
                    yield Block(tuple(atoms), f"line {begun}", _WRITER)
                    atoms = []
                yield raw
            line += raw.count("\n")
            i = end
        if atoms:
            yield Block(tuple(atoms), f"line {begun}", _WRITER)


def _is_kept(piece: MarkupPiece) -> bool:
    """Return whether an element is marked as not to be translated."""
    return piece.attribute("translate") == "no" or "notranslate" in (piece.attribute("class") or "").split()


def _skipped(parts: list[MarkupPiece], start: int) -> int:
    name = parts[start].name.lower()
    if parts[start].kind != "start" or name in _VOID:
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
