"""Blocks of text with inline markup, and the segments into which they are divided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from seqloom.document.placeholders import PlaceholderFinder
from seqloom.document.sentences import LengthLimit, Span, Split, has_words, spans
from seqloom.limits import BLOCK_CHARACTERS

if TYPE_CHECKING:
    from seqloom.document.document import TranslatedSegment

TOO_LONG = "too long"  # reason not to translate a block
Role = Literal["text", "space", "open", "close", "single"]


class Atom(NamedTuple):
    """Smallest part of a block: text, an escape such as `&amp;`, or a tag, which has no text.

    An atom with the role `space` is a space to the model and white space with a line break in the document.
    """

    text: str
    raw: str  # form in the document
    role: Role = "text"
    name: str = ""  # an opening and a closing tag with the same name form a pair

    @property
    def is_tag(self) -> bool:
        """Whether the atom is a tag."""
        return self.role in ("open", "close", "single")


class Segment(NamedTuple):
    """Sentence, or a part of a long one, that is translated by one request."""

    source: str  # text that the model reads
    atoms: tuple[Atom, ...]  # the same text with its markup
    is_part: bool = False  # whether the sentence was split because it is too long

    @property
    def raw(self) -> str:
        """The segment in the form of the document."""
        return raw(self.atoms)

    @property
    def has_tags(self) -> bool:
        """Whether there are tags inside the segment."""
        return any(atom.is_tag for atom in self.atoms)


class Writer(Protocol):
    """Form of a translation in a document."""

    def escape(self, text: str, source: Sequence[Atom]) -> str:
        """Return a translation in the form of the document; `source` are the atoms that it translates."""
        ...

    def write(self, unit: SegmentedBlock, atoms: Sequence[Atom], segments: Sequence[TranslatedSegment]) -> str:
        """Return the translated block; `atoms` has its text and tags with all segments translated."""
        ...

    def may_break(self, text: str, space: int) -> bool:
        """Return whether a line may be broken at a space of a translation, which has none at its ends."""
        ...


class InPlace:
    """Writer that replaces the source by its translation."""

    def escape(self, text: str, source: Sequence[Atom]) -> str:
        """Return the text with each character escaped if it is escaped in the source."""
        forms = {one.text: one.raw for one in source if one.role == "text" and one.text != one.raw}
        plain = {character for one in source if one.text == one.raw for character in one.text}
        return "".join(forms.get(character) or self.escape_character(character, plain) for character in text)

    def escape_character(self, character: str, plain: Set[str]) -> str:
        """Return the form of a character; `plain` are the characters that the source has without an escape."""
        return character

    def write(self, unit: SegmentedBlock, atoms: Sequence[Atom], segments: Sequence[TranslatedSegment]) -> str:
        """Return the atoms in the form of the document."""
        return raw(atoms)

    def may_break(self, text: str, space: int) -> bool:
        """Allow line breaks anywhere."""
        return True


IN_PLACE = InPlace()


@dataclass(frozen=True, slots=True)
class Block:
    """Text that is translated as a whole: a paragraph, a heading, an entry of a message catalogue."""

    atoms: tuple[Atom, ...]
    place: str = ""  # line, key or identifier, for reports
    writer: Writer = IN_PLACE
    existing: str = ""  # translation that the document already has
    status: str = "translated"  # of the existing translation
    original: str | None = None  # the block in the document, if it is not the atoms in their form
    skip: str = ""  # reason not to translate the block
    is_complete: bool = False  # whether the block is written even if it has no words to translate

    @property
    def text(self) -> str:
        """Text without markup."""
        return "".join(atom.text for atom in self.atoms)

    @property
    def raw(self) -> str:
        """The block in the document."""
        return raw(self.atoms) if self.original is None else self.original


Gap = tuple[Atom, ...]  # white space and tags between segments


@dataclass(frozen=True, slots=True)
class SegmentedBlock:
    """Block, divided into segments and the gaps between them."""

    block: Block
    pieces: tuple[Gap | Segment, ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Segment))


def raw(atoms: Iterable[Atom]) -> str:
    """Return atoms in the form of the document."""
    return "".join(atom.raw for atom in atoms)


def text_atoms(text: str) -> tuple[Atom, ...]:
    """Return the atoms of plain text."""
    return (Atom(text, text),) if text else ()


class TagPair(NamedTuple):
    """Opening and closing tag: their indices, and their positions in the text."""

    opening: int
    closing: int
    start: int
    end: int


def positions(atoms: Iterable[Atom]) -> list[int]:
    """Return the position in the text of each atom, and the length of the text."""
    found = [0]
    for atom in atoms:
        found.append(found[-1] + len(atom.text))
    return found


def tag_pairs(atoms: Sequence[Atom]) -> list[TagPair]:
    """Return the pairs of tags, inner ones first; a tag that crosses another pair has no partner."""
    places, pairs, open_tags = positions(atoms), list[TagPair](), list[int]()
    still_open: dict[str, int] = {}
    for i, atom in enumerate(atoms):
        if atom.role == "open":
            open_tags.append(i)
            still_open[atom.name] = still_open.get(atom.name, 0) + 1
        elif atom.role == "close" and still_open.get(atom.name):
            while True:
                opening = open_tags.pop()
                still_open[atoms[opening].name] -= 1
                if atoms[opening].name == atom.name:
                    break
            pairs.append(TagPair(opening, i, places[opening], places[i]))
    return pairs


def units_of(
    blocks: Iterable[str | Block],
    *,
    split: Split,
    language: str,
    limit: LengthLimit | None,
    placeholders: PlaceholderFinder | None = None,
    is_known: Callable[[str], bool] = lambda text: False,
) -> Iterator[str | SegmentedBlock]:
    """Yield the parts of a document in order: text that stays unchanged, and blocks in segments.

    A segment does not end inside a placeholder, and has words beside its placeholders. Sentences are joined
    where a pair of tags begins in one and ends in the next. A block whose text `is_known` is one segment.
    """
    finder = placeholders or PlaceholderFinder(())
    for block in blocks:
        if isinstance(block, str):
            yield block
            continue
        text = block.text
        if not block.skip and len(text) > BLOCK_CHARACTERS:
            block = replace(block, skip=TOO_LONG)
        if block.skip or not has_words(text):
            yield SegmentedBlock(block, (block.atoms,))
            continue
        way: Split = "none" if is_known(text) else split
        kept = [(one.start, one.end) for one in finder.find(text)]
        pairs = tag_pairs(block.atoms)
        if pairs:
            sentences = list(spans(text, split=way, language=language, limit=None, kept=kept))
            cut = [(one.start, one.end) for one in pairs if _is_cut(one, sentences)]
            kept += [span for span in cut if "\n" not in text[slice(*span)]]  # lines are never joined
        every = spans(text, split=way, language=language, limit=limit, kept=kept)
        found = [span for span in every if not finder.only(text[span.start : span.end])]
        yield SegmentedBlock(block, tuple(_divide(block.atoms, found)))


def _is_cut(pair: TagPair, sentences: Sequence[Span]) -> bool:
    """Return whether a pair of tags contains a part of a sentence, and text outside of it."""
    for one in sentences:
        start, end = max(pair.start, one.start), min(pair.end, one.end)
        if start < end and (end - start) not in (one.end - one.start, pair.end - pair.start):
            return True
    return False


def _divide(atoms: Sequence[Atom], found: Sequence[Span]) -> Iterator[Gap | Segment]:
    """Yield the gaps between the spans of a block, and a segment for each span."""
    if not found:
        yield tuple(atoms)
        return
    cut = list(_cut(atoms, [place for span in found for place in (span.start, span.end)]))
    places, pairs = positions(cut), tag_pairs(cut)
    closing = {pair.opening: pair.end for pair in pairs}
    opening = {pair.closing: pair.start for pair in pairs}
    i = 0
    for span in found:
        begun = i
        while places[i] < span.start or (cut[i].is_tag and not span.start < closing.get(i, -1) < span.end):
            i += 1
        first = i
        while places[i] < span.end:
            i += 1
        end = i
        for j in range(i, len(cut)):
            if not cut[j].is_tag:
                break
            if opening.get(j, -1) > span.start:
                end = j + 1
        i = end
        yield tuple(cut[begun:first])
        inside = tuple(cut[first:end])
        yield Segment("".join(atom.text for atom in inside), inside, span.is_part)
    yield tuple(cut[i:])


def _cut(atoms: Sequence[Atom], places: Sequence[int]) -> Iterator[Atom]:
    """Yield the atoms, divided at these positions in the text."""
    position, rest = 0, sorted(set(places), reverse=True)
    for atom in atoms:
        end = position + len(atom.text)
        while rest and rest[-1] < end:
            place = rest.pop() - position
            if place > 0 and atom.text == atom.raw:
                yield atom._replace(text=atom.text[:place], raw=atom.raw[:place])
                atom = atom._replace(text=atom.text[place:], raw=atom.raw[place:])
                position += place
        yield atom
        position = end
