"""A document: parsed into segments, and assembled from their translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

from seqloom.document.placeholders import PlaceholderFinder
from seqloom.document.segments import Block, Segment, segments_of, text_block
from seqloom.document.sentences import LengthLimit, Split
from seqloom.errors import require_known
from seqloom.text.normalize import check_unicode
from seqloom.types import Hypothesis, Request

Format = Literal["text"]
_PARSERS: Mapping[str, Callable[[str], Iterable[str | Block]]] = {"text": lambda text: [text_block(text)]}
_FULL_STOPS = "。！？．；"  # no space follows them


@dataclass(frozen=True, slots=True)
class TranslatedSegment:
    """Segment with its translation."""

    segment: Segment
    hypothesis: Hypothesis
    text: str  # translation in the form of the document
    start: int  # position of `text` in the translated document
    flags: tuple[str, ...]  # those of the hypothesis, and `split`

    @property
    def end(self) -> int:
        """End of `text` in the translated document."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """Translated document."""

    text: str
    segments: tuple[TranslatedSegment, ...]

    @property
    def flags(self) -> Counter[str]:
        """Number of segments with each flag."""
        return Counter(flag for one in self.segments for flag in one.flags)


@dataclass(frozen=True, slots=True)
class Document:
    """Text that stays unchanged, and segments to translate, in order."""

    pieces: tuple[str | Segment, ...]

    @classmethod
    def parse(
        cls,
        text: str,
        format: Format = "text",
        *,
        language: str = "",
        split: Split = "sentences",
        limit: LengthLimit | None = None,
        placeholders: PlaceholderFinder | None = None,
    ) -> Self:
        """Divide a document into segments.

        `language` is the code of the source language, for its abbreviations. Segments are sentences, lines or
        entire blocks of text, and sentences above the `limit` are split at punctuation or white space. A
        segment without letters and digits, such as an emoji, or without text beside its placeholders is not
        translated.
        """
        check_unicode(text)
        require_known("document format", format, get_args(Format))
        require_known("way to split text", split, get_args(Split))
        blocks = _PARSERS[format](text)
        found = segments_of(blocks, split=split, language=language, limit=limit, placeholders=placeholders)
        return cls(tuple(found))

    @property
    def text(self) -> str:
        """The document as it was parsed."""
        return "".join(piece if isinstance(piece, str) else piece.raw for piece in self.pieces)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Segment))

    @property
    def requests(self) -> list[Request]:
        """A request for each segment."""
        return [Request(segment.source) for segment in self.segments]

    def assemble(self, outputs: Sequence[Hypothesis]) -> DocumentResult:
        """Return the document with each segment replaced by its output, given in the order of the segments."""
        remaining, done = _checked(outputs, len(self.segments)), list[TranslatedSegment]()
        text = _Text()
        for piece in self.pieces:
            if isinstance(piece, str):
                text.add(piece)
                continue
            hypothesis = next(remaining)
            rendered = _rendered(piece, hypothesis)
            if done and text.length == done[-1].end and _needs_space(done[-1], rendered):
                text.add(" ")
            flags = (*hypothesis.flags, "split") if piece.is_part else hypothesis.flags
            done.append(TranslatedSegment(piece, hypothesis, rendered, text.length, flags))
            text.add(rendered)
        return DocumentResult("".join(text.parts), tuple(done))


class _Text:
    """Text in parts, with its length so far."""

    def __init__(self) -> None:
        self.parts, self.length = list[str](), 0

    def add(self, part: str) -> None:
        self.parts.append(part)
        self.length += len(part)


def _checked(outputs: Sequence[Hypothesis], expected: int) -> Iterator[Hypothesis]:
    assert len(outputs) == expected, f"the document has {expected} segments, got {len(outputs)} outputs"
    return iter(outputs)


def _rendered(segment: Segment, hypothesis: Hypothesis) -> str:
    """Return the output without white space around it; line breaks only if the source has them too."""
    text = hypothesis.text.strip()
    return text if len(segment.source.splitlines()) > 1 else " ".join(text.splitlines())


def _needs_space(before: TranslatedSegment, text: str) -> bool:
    """Return whether a space must separate adjacent sentences whose source has a full stop without a space."""
    ended = before.segment.source[-1] in _FULL_STOPS and before.text[-1:] not in _FULL_STOPS
    return ended and bool(text) and not text[0].isspace()
