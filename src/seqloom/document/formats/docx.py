"""Word documents (DOCX): paragraphs, with the formats of their runs as inline markup."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from itertools import count
from typing import TYPE_CHECKING

from seqloom.document.formats.inner_texts import InnerTexts, with_inner_texts
from seqloom.document.formats.tags import MarkupPiece, MarkupText, element, joined, pieces, text_atoms
from seqloom.document.formats.zip_file import ZippedXml
from seqloom.document.segments import Atom, Block, SegmentedBlock, raw

if TYPE_CHECKING:
    from seqloom.document.document import TranslatedSegment

_PART = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_FORMAT = "run format"  # name of the tags that begin and end a format
_IN_TEXT = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011"}
_TAG = re.compile(r"(<w:[^>]*>)")


class Runs(MarkupText):
    """Writer of the runs of a paragraph."""

    def __init__(self, base: str) -> None:
        self._base = base  # format of the text outside of all tags

    def write(self, unit: SegmentedBlock, atoms: Sequence[Atom], segments: Sequence[TranslatedSegment]) -> str:
        """Return the runs of a paragraph, which stay as they are if no text has changed."""
        if raw(atoms) == raw(unit.block.atoms):
            return unit.block.raw
        result, text, formats = list[str](), list[str](), [self._base]
        for atom in atoms:
            if not atom.is_tag:
                text.append(atom.raw)
                continue
            if text:
                result.append(_run(formats[-1], "".join(text)))
                text = []
            if atom.name != _FORMAT:
                result.append(atom.raw)
            elif atom.role == "open":
                formats.append(atom.raw)
            else:
                formats.pop()
        if text:
            result.append(_run(formats[-1], "".join(text)))
        return "".join(result)


class Docx(ZippedXml):
    """DOCX files."""

    description = "a DOCX document"

    def is_part(self, name: str) -> bool:
        """Return whether a file is the text, a header, a footer, or notes."""
        return bool(_PART.fullmatch(name))

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for each paragraph; those of text boxes stand before the paragraph with the box."""
        yield from _blocks(list(pieces(text)), count(1))


def _blocks(parts: Sequence[MarkupPiece], numbers: Iterator[int]) -> Iterator[str | Block]:
    i = 0
    while i < len(parts):
        piece = parts[i]
        yield piece.raw
        i += 1
        if _is_paragraph(piece):
            end = element(parts, i - 1)
            yield from _paragraph(parts[i : end - 1], numbers)
            i = end - 1


def _is_paragraph(piece: MarkupPiece) -> bool:
    return piece.kind == "start" and piece.name == "p" and piece.raw.startswith("<w:p")


def _paragraph(parts: Sequence[MarkupPiece], numbers: Iterator[int]) -> Iterable[Block]:
    """Return the blocks of a paragraph. Runs with the most frequent format are outside of all format tags."""
    place = f"paragraph {next(numbers)}"
    found: list[tuple[str | None, list[Atom]]] = []  # the format of a run, None for what is not text
    inner: dict[str, InnerTexts] = {}
    i = 0
    while i < len(parts):
        piece, end = parts[i], element(parts, i)
        run = _run_text(parts[i:end]) if piece.name == "r" and piece.kind == "start" else None
        if run is not None:
            found.append(run)
        elif piece.kind == "end":
            found.append((None, [Atom("", piece.raw, "close", piece.name)]))
            end = i + 1
        elif piece.kind == "start" and piece.name in ("hyperlink", "ins", "smartTag"):
            found.append((None, [Atom("", piece.raw, "open", piece.name)]))
            end = i + 1
        else:
            content = joined(parts[i:end])
            if any(map(_is_paragraph, parts[i:end])):
                inner[content] = InnerTexts(_blocks(parts[i:end], numbers))
            found.append((None, [Atom("", content, "single")]))
        i = end
    lengths = Counter[str]()
    for format, atoms in found:
        if format is not None:
            lengths[format] += sum(len(atom.text) for atom in atoms)
    base = max(lengths, key=lambda one: lengths[one], default="")
    block = Block(tuple(_with_formats(found, base)), place, Runs(base), original=joined(parts))
    return with_inner_texts(block, inner)


def _with_formats(found: Sequence[tuple[str | None, list[Atom]]], base: str) -> Iterator[Atom]:
    """Yield the atoms of a paragraph, with tags around runs of another format than the base."""
    current = base
    for format, atoms in found:
        wanted = base if format is None and atoms[0].role != "single" else current if format is None else format
        if wanted != current:
            if current != base:
                yield Atom("", "", "close", _FORMAT)
            if wanted != base:
                yield Atom("", wanted, "open", _FORMAT)
            current = wanted
        yield from atoms
    if current != base:
        yield Atom("", "", "close", _FORMAT)


def _run_text(parts: Sequence[MarkupPiece]) -> tuple[str, list[Atom]] | None:
    """Return the format and the text of a run; None if it has anything else."""
    format, atoms, i = "", list[Atom](), 1
    while i < len(parts) - 1:
        piece, end = parts[i], element(parts, i)
        if piece.name == "rPr":
            format = joined(parts[i:end])
        elif piece.name == "t" and piece.kind == "start":
            content = joined(parts[i + 1 : end - 1])
            if unescape(content):
                atoms += text_atoms(content, collapse=False)
        elif piece.name in _IN_TEXT and piece.kind == "empty":
            atoms.append(Atom(_IN_TEXT[piece.name], piece.raw))
        elif piece.name != "lastRenderedPageBreak" and piece.name != "t":
            return None
        i = end
    return (format, atoms) if atoms else None


def _run(format: str, text: str) -> str:
    """Return a run; tabs and line breaks are elements beside its text."""
    items = [
        part if part.startswith("<w:") else f'<w:t xml:space="preserve">{part}</w:t>'
        for part in _TAG.split(text)
        if part
    ]
    return f"<w:r>{format}{''.join(items)}</w:r>"


FORMAT = Docx()
