"""OpenDocument text (ODT): paragraphs and headings; spans and links are inline markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from seqloom.document.formats.inner_texts import InnerTexts, with_inner_texts
from seqloom.document.formats.tags import MarkupPiece, MarkupText, element, joined, pieces, text_atoms
from seqloom.document.formats.zip_file import ZippedXml
from seqloom.document.segments import Atom, Block

_PARTS = ("content.xml", "styles.xml")  # styles.xml has headers and footers
_WITHIN = ("span", "a")  # elements whose text belongs to the sentence; all others stay unchanged
_COMMENT = "annotation"  # of a reviewer
_WRITER = MarkupText()


class Odt(ZippedXml):
    """ODT files."""

    description = "an ODT document"

    def is_part(self, name: str) -> bool:
        """Return whether a file has paragraphs."""
        return name in _PARTS

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for each paragraph and heading; those of its frames and notes stand before it."""
        yield from _blocks(list(pieces(text)), count(1))


def _blocks(parts: Sequence[MarkupPiece], numbers: Iterator[int]) -> Iterator[str | Block]:
    i = 0
    while i < len(parts):
        piece = parts[i]
        if not _is_paragraph(piece):
            yield piece.raw
            i += 1
            continue
        end = element(parts, i)
        yield piece.raw
        yield from _paragraph(parts[i + 1 : end - 1], numbers)
        yield parts[end - 1].raw
        i = end


def _is_paragraph(piece: MarkupPiece) -> bool:
    is_named = piece.name in ("p", "h") and piece.raw.startswith(("<text:p", "<text:h"))
    return piece.kind == "start" and is_named


def _paragraph(parts: Sequence[MarkupPiece], numbers: Iterator[int]) -> Iterable[Block]:
    place = f"paragraph {next(numbers)}"
    atoms, inner = list[Atom](), dict[str, InnerTexts]()
    i = 0
    while i < len(parts):
        piece, end = parts[i], i + 1
        if piece.kind == "text":
            atoms += text_atoms(piece.raw, collapse=True)
        elif piece.kind == "empty" and piece.name == "s":
            atoms.append(Atom(" ", piece.raw, "space"))
        elif piece.kind == "empty" and piece.name in ("tab", "line-break"):
            atoms.append(Atom("\t" if piece.name == "tab" else "\n", piece.raw))
        elif piece.name in _WITHIN and piece.kind in ("start", "end"):
            atoms.append(Atom("", piece.raw, "open" if piece.kind == "start" else "close", piece.name))
        else:
            end = element(parts, i)
            content = joined(parts[i:end])
            if piece.name != _COMMENT and any(map(_is_paragraph, parts[i:end])):
                inner[content] = InnerTexts(_blocks(parts[i:end], numbers))
            atoms.append(Atom("", content, "single"))
        i = end
    return with_inner_texts(Block(tuple(atoms), place, _WRITER), inner)


FORMAT = Odt()
