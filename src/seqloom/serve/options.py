"""Options of documents for a model."""

from __future__ import annotations

from seqloom.document.glossary import Glossary
from seqloom.document.sentences import LengthLimit, Split
from seqloom.document.translation import DocumentOptions
from seqloom.languages import base_language
from seqloom.serve.models import Served


def document_options(
    model: Served,
    *,
    format: str = "text",
    split: Split | None = None,
    glossary: Glossary | None = None,
) -> DocumentOptions:
    """Return the options of a document: texts in a language are split into sentences, others into lines."""
    languages = model.languages
    return DocumentOptions(
        format=format,
        language=base_language(languages.source) if languages else "",
        split=split or ("sentences" if languages else "lines"),
        limit=LengthLimit(model.info.longest, model.tokens),
        glossary=glossary or Glossary(()),
    )
