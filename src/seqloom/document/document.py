"""A document: read into segments, and assembled from their translations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self, get_args

from seqloom.document.formats import find_format
from seqloom.document.languages import check_languages
from seqloom.document.markup import is_flat, transfer, without_pairs
from seqloom.document.memory import Match
from seqloom.document.placeholders import PlaceholderFinder
from seqloom.document.segments import Atom, Segment, SegmentedBlock, units_of
from seqloom.document.sentences import LengthLimit, Split
from seqloom.document.size_checks import check_segments
from seqloom.errors import require_known
from seqloom.text.normalize import check_unicode
from seqloom.types import Hypothesis, Request

_FULL_STOPS = "。！？．；"  # no space follows them


@dataclass(frozen=True, slots=True)
class TranslatedSegment:
    """Segment with its translation."""

    segment: Segment
    hypothesis: Hypothesis
    text: str  # translation without markup
    flags: tuple[str, ...]  # those of the hypothesis, `split` and `markup`
    place: str = ""  # line, key or identifier in the document
    match: Match | None = None  # of the translation memory

    @property
    def is_from_memory(self) -> bool:
        """Whether the translation is that of an equal text of the memory."""
        return self.match is not None and self.match.similarity == 100.0 and self.match.target == self.text

    @property
    def confidence(self) -> float | None:
        """Mean probability (geometric) of a token; None if the probabilities are not known."""
        known = self.hypothesis.token_log_probs
        return math.exp(sum(known) / len(known)) if known else None


@dataclass(frozen=True, slots=True)
class KeptText:
    """Text that was not translated."""

    source: str
    place: str
    reason: str  # `translated`, another state of a translation, or `no words`
    translation: str = ""  # the existing one


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """Translated document."""

    text: str
    segments: tuple[TranslatedSegment, ...]
    kept: tuple[KeptText, ...]
    encode: Callable[[str], bytes]

    @property
    def flags(self) -> Counter[str]:
        """Number of segments with each flag."""
        return Counter(flag for one in self.segments for flag in one.flags)

    def to_bytes(self) -> bytes:
        """Return the content of the translated file."""
        return self.encode(self.text)


@dataclass(frozen=True, slots=True)
class Document:
    """Text that stays unchanged, and units with segments to translate, in order."""

    pieces: tuple[str | SegmentedBlock, ...]
    kept: tuple[KeptText, ...] = ()
    encode: Callable[[str], bytes] = str.encode

    @classmethod
    def parse(
        cls,
        text: str | bytes,
        format: str = "text",
        *,
        name: str = "the document",
        language: str = "",
        target_language: str = "",
        split: Split = "sentences",
        limit: LengthLimit | None = None,
        placeholders: PlaceholderFinder | None = None,
        overwrite: bool = False,
        is_known: Callable[[str], bool] = lambda text: False,
    ) -> Self:
        """Divide a document into segments; `name` names it in error messages.

        `language` is the code of the source language, for its abbreviations. If a document names other
        languages than these, an error is raised. Segments are sentences, lines or
        entire blocks of text, and sentences above the `limit` are split at punctuation or white space. A
        segment without letters and digits, such as an emoji, or without text beside its placeholders is not
        translated, nor is a text that has a translation, unless `overwrite`. A block whose text `is_known`,
        for example to a translation memory, is not divided.
        """
        kind = find_format(format)
        require_known("way to split text", split, get_args(Split))
        if isinstance(text, str):
            check_unicode(text)
            content, encode = text, kind.encoder(text.encode(), name)
        else:
            content, encode = kind.decode(text, name), kind.encoder(text, name)
        units = units_of(
            kind.parse(content, name),
            split=split,
            language=language,
            limit=limit,
            placeholders=placeholders,
            is_known=is_known,
        )
        pieces, kept, count = list[str | SegmentedBlock](), list[KeptText](), 0
        for unit in units:
            count += 1 if isinstance(unit, str) else len(unit.pieces)
            check_segments(count, name)
            if isinstance(unit, str):
                pieces.append(unit)
                continue
            reason = _reason_to_keep(unit, overwrite=overwrite)
            if reason:
                kept.append(KeptText(unit.block.text, unit.block.place, reason, unit.block.existing))
            pieces.append(unit.block.raw if reason else unit)
        check_languages(kind.languages(content), (language, target_language), name)
        return cls(tuple(pieces), tuple(kept), encode)

    @property
    def text(self) -> str:
        """The document as it was read."""
        return "".join(piece if isinstance(piece, str) else piece.block.raw for piece in self.pieces)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments in order."""
        return tuple(
            one for piece in self.pieces if isinstance(piece, SegmentedBlock) for one in piece.segments
        )

    @property
    def requests(self) -> list[Request]:
        """A request for each segment."""
        return [Request(segment.source) for segment in self.segments]

    @property
    def needs_alignment(self) -> bool:
        """Whether there are tags inside segments."""
        return any(segment.has_tags for segment in self.segments)

    def assemble(
        self, outputs: Sequence[Hypothesis], matches: Sequence[Match | None] | None = None
    ) -> DocumentResult:
        """Return the document with each segment replaced by its output, given in the order of the segments.

        `matches` are those of a translation memory.
        """
        expected = len(self.segments)
        assert len(outputs) == expected, f"the document has {expected} segments, got {len(outputs)} outputs"
        remaining = zip(outputs, matches or [None] * expected, strict=True)
        parts, done = list[str](), list[TranslatedSegment]()
        for piece in self.pieces:
            if isinstance(piece, str):
                parts.append(piece)
                continue
            atoms, segments = _translated(piece, remaining)
            parts.append(piece.block.writer.write(piece, atoms, segments))
            done += segments
        return DocumentResult("".join(parts), tuple(done), self.kept, self.encode)


def _reason_to_keep(unit: SegmentedBlock, *, overwrite: bool) -> str:
    """Return why a unit is not translated, or nothing."""
    if unit.block.skip:
        return unit.block.skip
    if unit.block.existing and not overwrite:
        return unit.block.status
    return "" if unit.segments or unit.block.is_complete else "no words"


def _translated(
    unit: SegmentedBlock, outputs: Iterator[tuple[Hypothesis, Match | None]]
) -> tuple[list[Atom], list[TranslatedSegment]]:
    """Return the atoms of a unit with its segments translated, and the segments."""
    atoms, done = list[Atom](), list[TranslatedSegment]()
    previous: TranslatedSegment | None = None  # if it is adjacent
    for piece in unit.pieces:
        if not isinstance(piece, Segment):
            atoms += piece
            if any(atom.text for atom in piece):
                previous = None
            continue
        hypothesis, match = next(outputs)
        text = _rendered(piece, hypothesis)
        flags = (*hypothesis.flags, "split") if piece.is_part else hypothesis.flags
        if previous is not None and _needs_space(previous, text):
            atoms.append(Atom(" ", " "))
        moved = _with_markup(unit, piece, text, hypothesis)
        if moved is None:
            moved = without_pairs(piece.atoms, text, unit.block.writer)
            flags = (*flags, "markup")
        atoms += moved
        previous = TranslatedSegment(piece, hypothesis, text, flags, unit.block.place, match)
        done.append(previous)
    return atoms, done


def _with_markup(
    unit: SegmentedBlock, segment: Segment, text: str, hypothesis: Hypothesis
) -> list[Atom] | None:
    """Return a translation with the markup of its segment; None if the markup cannot be moved."""
    if text == segment.source:
        return list(segment.atoms)
    if is_flat(segment.atoms):
        return [Atom(text, unit.block.writer.escape(text, segment.atoms))]
    return transfer(segment.atoms, text, hypothesis, unit.block.writer)


def _rendered(segment: Segment, hypothesis: Hypothesis) -> str:
    """Return the output without white space around it; line breaks only if the source has them too."""
    text = hypothesis.text.strip()
    return text if len(segment.source.splitlines()) > 1 else " ".join(text.splitlines())


def _needs_space(before: TranslatedSegment, text: str) -> bool:
    """Return whether a space must separate adjacent sentences whose source has a full stop without a space."""
    ended = before.segment.source[-1] in _FULL_STOPS and before.text[-1:] not in _FULL_STOPS
    return ended and bool(text) and not text[0].isspace()
