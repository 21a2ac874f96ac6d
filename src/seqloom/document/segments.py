"""Blocks of text with markup, and the segments into which they are divided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from seqloom.document.placeholders import PlaceholderFinder
from seqloom.document.sentences import LengthLimit, Span, Split, spans


class Atom(NamedTuple):
    """Text and its form in the document: equal, an escape such as `&amp;`, or a tag, which has no text."""

    text: str
    raw: str


class Block(NamedTuple):
    """Text of a paragraph or a heading, with its escapes."""

    atoms: tuple[Atom, ...]

    @property
    def text(self) -> str:
        """Text without markup."""
        return "".join(atom.text for atom in self.atoms)

    def pieces(self, places: Sequence[int]) -> Iterator[tuple[Atom, ...]]:
        """Yield the atoms between consecutive positions in the text; the last position is its end."""
        rest, position = list(reversed(self.atoms)), 0
        for place in places:
            piece = []
            while rest and position < place:
                atom = rest.pop()
                kept = place - position
                if kept < len(atom.text) and atom.text == atom.raw:
                    rest.append(Atom(atom.text[kept:], atom.raw[kept:]))
                    atom = Atom(atom.text[:kept], atom.raw[:kept])
                piece.append(atom)
                position += len(atom.text)
            yield tuple(piece)
        yield tuple(reversed(rest))


class Segment(NamedTuple):
    """Sentence, or a part of a long one, that is translated by one request."""

    source: str  # text that the model reads
    raw: str  # the same text in the document, with escapes and markup
    start: int  # position of `raw` in the document
    is_part: bool = False  # whether the sentence was split because it is too long

    @property
    def end(self) -> int:
        """End of `raw` in the document."""
        return self.start + len(self.raw)


def text_block(text: str) -> Block:
    """Return a block of plain text."""
    return Block((Atom(text, text),) if text else ())


def segments_of(
    blocks: Iterable[str | Block],
    *,
    split: Split,
    language: str,
    limit: LengthLimit | None,
    placeholders: PlaceholderFinder | None = None,
) -> Iterator[str | Segment]:
    """Yield the pieces of a document in order: text that stays unchanged, and segments.

    A segment does not end inside a placeholder, and has words beside its placeholders.
    """
    position, finder = 0, placeholders or PlaceholderFinder(())
    for block in blocks:
        if isinstance(block, str):
            yield block
            position += len(block)
            continue
        text = block.text
        kept = [(one.start, one.end) for one in finder.find(text)]
        every = spans(text, split=split, language=language, limit=limit, kept=kept)
        found = [span for span in every if not finder.only(text[span.start : span.end])]
        for piece in _divide(block, found, position):
            yield piece
            position += len(piece) if isinstance(piece, str) else len(piece.raw)


def _divide(block: Block, found: Sequence[Span], position: int) -> Iterator[str | Segment]:
    """Yield the text between the spans of a block, and a segment for each span."""
    places = [place for span in found for place in (span.start, span.end)]
    for i, atoms in enumerate(block.pieces(places)):
        raw = "".join(atom.raw for atom in atoms)
        if i % 2:
            source = "".join(atom.text for atom in atoms)
            yield Segment(source, raw, position, found[i // 2].is_part)
        elif raw:
            yield raw
        position += len(raw)
