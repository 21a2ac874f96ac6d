"""Attributes of HTML tags that have text: `title`, `alt`, `placeholder`, the description of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING

from seqloom.document.formats.tags import Attribute, MarkupPiece, MarkupText, text_atoms
from seqloom.document.segments import Block, SegmentedBlock, raw

if TYPE_CHECKING:
    from seqloom.document.document import TranslatedSegment
    from seqloom.document.segments import Atom

# The attributes that the HTML standard calls translatable, without those of scripts and styles.
_WITH_TEXT = frozenset(
    [
        *("title", "alt", "placeholder", "label", "abbr", "summary"),
        *("aria-label", "aria-description", "aria-placeholder", "aria-roledescription", "aria-valuetext"),
    ]
)
_BUTTONS = ("submit", "button", "reset")  # inputs whose value is shown
_PAGE_TEXTS = frozenset(
    [
        *("description", "keywords", "application-name", "og:title", "og:description", "og:site_name"),
        *("og:image:alt", "twitter:title", "twitter:description", "twitter:image:alt"),
    ]
)


class AttributeText(MarkupText):
    """Writer of the value of an attribute."""

    def __init__(self, quote: str) -> None:
        self._quote = quote

    def escape_character(self, character: str, plain: Set[str]) -> str:
        """Escape the characters of tags and entities, and the quotation mark around the value."""
        if character == (self._quote or '"'):
            return "&#39;" if character == "'" else "&quot;"
        return super().escape_character(character, plain)

    def write(self, unit: SegmentedBlock, atoms: Sequence[Atom], segments: Sequence[TranslatedSegment]) -> str:
        """Return the value, in quotation marks if it had none and has changed."""
        value = raw(atoms)
        return value if self._quote or value == unit.block.raw else f'"{value}"'


def with_texts(tag: MarkupPiece, place: str) -> Iterator[str | Block]:
    """Yield the parts of a tag: its attributes with text are blocks."""
    position = 0
    for attribute in tag.attributes():
        if not attribute.value.strip() or not _has_text(tag, attribute):
            continue
        yield tag.raw[position : attribute.start]
        atoms = tuple(text_atoms(attribute.value, collapse=True))
        yield Block(atoms, f"{place}, {attribute.name}", AttributeText(attribute.quote))
        position = attribute.start + len(attribute.value)
    yield tag.raw[position:]


def _has_text(tag: MarkupPiece, attribute: Attribute) -> bool:
    name, element = attribute.name.lower(), tag.name.lower()
    if name == "value":
        return element == "input" and (tag.attribute("type") or "").lower() in _BUTTONS
    if name == "content":
        described = tag.attribute("name") or tag.attribute("property") or ""
        return element == "meta" and described.lower() in _PAGE_TEXTS
    return name in _WITH_TEXT and element not in ("link", "style")
