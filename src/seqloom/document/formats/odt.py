"""OpenDocument text (ODT): paragraphs and headings; spans and links are inline markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seqloom.document.formats.tags import MarkupPiece, MarkupText, element, joined, pieces, text_atoms
from seqloom.document.formats.zip_file import ZippedXml
from seqloom.document.segments import Atom, Block

_PARTS = ("content.xml", "styles.xml")  # styles.xml has headers and footers
_WITHIN = ("span", "a")  # elements whose text belongs to the sentence; all others stay unchanged
_WRITER = MarkupText()


class Odt(ZippedXml):
    """ODT files."""

    description = "an ODT document"

    def is_part(self, name: str) -> bool:
        """Return whether a file has paragraphs."""
        return name in _PARTS

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for each paragraph and heading."""
        parts, i, number = list(pieces(text)), 0, 0
        while i < len(parts):
            piece = parts[i]
            is_paragraph = piece.kind == "start" and piece.raw.startswith(("<text:p", "<text:h"))
            if not (is_paragraph and piece.name in ("p", "h")):
                yield piece.raw
                i += 1
                continue
            end, number = element(parts, i), number + 1
            yield piece.raw
            yield Block(tuple(_atoms(parts[i + 1 : end - 1])), f"paragraph {number}", _WRITER)
            yield parts[end - 1].raw
            i = end


def _atoms(parts: Sequence[MarkupPiece]) -> Iterator[Atom]:
    i = 0
    while i < len(parts):
        piece, end = parts[i], i + 1
        if piece.kind == "text":
            yield from text_atoms(piece.raw, collapse=True)
        elif piece.kind == "empty" and piece.name == "s":
            yield Atom(" ", piece.raw, "space")
        elif piece.kind == "empty" and piece.name in ("tab", "line-break"):
            yield Atom("\t" if piece.name == "tab" else "\n", piece.raw)
        elif piece.name in _WITHIN and piece.kind in ("start", "end"):
            yield Atom("", piece.raw, "open" if piece.kind == "start" else "close", piece.name)
        else:
            end = element(parts, i)
            yield Atom("", joined(parts[i:end]), "single")
        i = end


FORMAT = Odt()
