"""Texts inside a tag or an object, such as attributes and text boxes: they are blocks of their own.

A block contains the tag as one atom. The blocks of the inner texts stand before it in the document: they write
nothing, and the block that contains the tag writes it with their translations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seqloom.document.segments import Atom, Block, SegmentedBlock, Writer

if TYPE_CHECKING:
    from seqloom.document.document import TranslatedSegment


class InnerTexts:
    """Tag or object with texts inside; `parts` are the strings and blocks that it consists of."""

    def __init__(self, parts: Iterable[str | Block]) -> None:
        self._parts = list(parts)
        self._new: dict[int, str] = {}  # translated parts by their index
        self.raw = "".join(part if isinstance(part, str) else part.raw for part in self._parts)

    @property
    def translated(self) -> str:
        """The tag or object with the translations that are known so far."""
        parts = enumerate(self._parts)
        return "".join(self._new.get(i, part if isinstance(part, str) else part.raw) for i, part in parts)

    @property
    def blocks(self) -> list[Block]:
        """The texts as blocks for the document, which write nothing at their place."""
        return [
            replace(part, writer=_Inside(self, i, part), original="")
            for i, part in enumerate(self._parts)
            if isinstance(part, Block)
        ]

    def set(self, index: int, text: str) -> None:
        """Set the translation of a part."""
        self._new[index] = text


class _Inside:
    """Writer of an inner text."""

    def __init__(self, inner: InnerTexts, index: int, block: Block) -> None:
        self._inner, self._index, self._block = inner, index, block

    def escape(self, text: str, source: Sequence[Atom]) -> str:
        return self._block.writer.escape(text, source)

    def may_break(self, text: str, space: int) -> bool:
        return self._block.writer.may_break(text, space)

    def write(self, unit: SegmentedBlock, atoms: Sequence[Atom], segments: Sequence[TranslatedSegment]) -> str:
        own = replace(unit, block=self._block)
        self._inner.set(self._index, self._block.writer.write(own, atoms, segments))
        return ""


class WithInnerTexts:
    """Writer of a block in which the tags with inner texts are replaced by their translated form."""

    def __init__(self, writer: Writer, inner: Mapping[str, InnerTexts]) -> None:
        self._writer, self._inner = writer, inner  # by the raw form of the tag

    def escape(self, text: str, source: Sequence[Atom]) -> str:
        """Return a translation in the form of the document."""
        return self._writer.escape(text, source)

    def may_break(self, text: str, space: int) -> bool:
        """Return whether a line may be broken at a space of a translation."""
        return self._writer.may_break(text, space)

    def write(self, unit: SegmentedBlock, atoms: Sequence[Atom], segments: Sequence[TranslatedSegment]) -> str:
        """Return the block with the translated tags."""
        return self._writer.write(unit, [self._translated(atom) for atom in atoms], segments)

    def _translated(self, atom: Atom) -> Atom:
        inner = self._inner.get(atom.raw) if atom.is_tag else None
        return atom if inner is None else atom._replace(raw=inner.translated)


def with_inner_texts(block: Block, inner: Mapping[str, InnerTexts]) -> Iterable[Block]:
    """Yield the blocks of the inner texts, and then the block that contains them."""
    for one in inner.values():
        yield from one.blocks
    yield replace(block, writer=WithInnerTexts(block.writer, inner), is_complete=True) if inner else block
