"""Documents: text is split into segments, translated, and assembled again with its layout unchanged."""

from seqloom.document.document import Document, DocumentResult, KeptText, TranslatedSegment
from seqloom.document.glossary import Glossary, Term
from seqloom.document.memory import Match, TranslationMemory
from seqloom.document.placeholders import Placeholder, PlaceholderFinder
from seqloom.document.segments import Segment
from seqloom.document.sentences import LengthLimit, Split
from seqloom.document.translation import (
    DocumentOptions,
    translate_document,
    translate_documents,
    translate_html,
)

__all__ = [
    "Document",
    "DocumentOptions",
    "DocumentResult",
    "Glossary",
    "KeptText",
    "LengthLimit",
    "Match",
    "Placeholder",
    "PlaceholderFinder",
    "Segment",
    "Split",
    "Term",
    "TranslatedSegment",
    "TranslationMemory",
    "translate_document",
    "translate_documents",
    "translate_html",
]
