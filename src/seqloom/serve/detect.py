"""Language detection with py3langid, among the source languages of the models."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import NamedTuple

from seqloom.cleaning.language import load_identifier
from seqloom.document.sentences import has_words
from seqloom.languages import base_language

_CHARACTERS = 2000  # at the beginning of a text decide about its language


class Detected(NamedTuple):
    """Language of a text, and the probability in percent."""

    language: str
    confidence: float

    def as_json(self) -> dict[str, object]:
        """Return the form of LibreTranslate."""
        return {"confidence": self.confidence, "language": self.language}


identifier = cache(load_identifier)  # loaded when it is needed first: that takes a second


def detect(text: str, languages: Collection[str]) -> list[Detected]:
    """Return the languages of a text among the given codes, the most probable one first.

    A text without letters could be of any language: its confidence is 0.
    """
    if not languages:
        return []
    if not has_words(text):
        return [Detected(sorted(languages, key=lambda code: (code != "en", code))[0], 0.0)]
    by_base = {base_language(code): code for code in sorted(languages, reverse=True)}
    scores = dict(identifier().rank(text[:_CHARACTERS]))
    known = [code for code in by_base if code in scores]
    if not known:
        return [Detected(min(languages), 0.0)]
    ranked = sorted(known, key=lambda code: -scores[code])
    return [Detected(by_base[code], round(100 * scores[code], 1)) for code in ranked]
