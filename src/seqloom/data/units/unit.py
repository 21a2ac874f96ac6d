"""Translation units and the rules that select their languages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair, base_language, language_code

UNTRANSLATED = "untranslated unit"
FUZZY = "fuzzy or unapproved translation"
OBSOLETE = "obsolete unit"
OTHER_PLURAL = "additional plural form"
NOT_TRANSLATABLE = "unit marked as not translatable"
OTHER_LANGUAGES = "file in other languages"
NOT_TEXT = (OBSOLETE, OTHER_PLURAL, OTHER_LANGUAGES)  # units that are not translated

Direction = Literal["forward", "reverse"]


class Unit(NamedTuple):
    """A text with its translation, at a line of a file; `skipped` is the reason why it is not a pair."""

    line: int
    source: str
    target: str | None = None
    skipped: str = ""
    fault: str = ""  # why it is malformed

    def turned(self, direction: Direction) -> Unit:
        """Return the unit with its sides exchanged if the direction is `reverse`."""
        if direction == "forward" or self.fault:
            return self
        return self._replace(source=self.target or "", target=self.source)


def pair_unit(line: int, source: str, target: str, skipped: str = "") -> Unit:
    """Return the unit of two texts; without a translation it is skipped."""
    if not target.strip():
        return Unit(line, source, None, skipped if skipped == OBSOLETE else UNTRANSLATED)
    return Unit(line, source, target, skipped)


def direction(source: str | None, target: str | None, wanted: LanguagePair | None) -> Direction | None:
    """Return how a file with these languages is read for the wanted pair; None if it has other languages.

    A language that the file does not name matches any.
    """
    if wanted is None or (_matches(source, wanted.source) and _matches(target, wanted.target)):
        return "forward"
    if _matches(source, wanted.target) and _matches(target, wanted.source):
        return "reverse"
    return None


def _matches(code: str | None, wanted: str) -> bool:
    """Return whether a code is the wanted one, or the same language with or without script and region."""
    if not code or code == wanted:
        return True
    return base_language(code) == base_language(wanted) and (code in wanted or wanted in code)


def choose_variant(codes: Iterable[str], wanted: str, path: str) -> str | None:
    """Return the code that is the wanted language: the same code, or else the only one of that language.

    If the file has several variants, the one without script and region is chosen; without it, raise an error.
    """
    every = sorted(set(codes))
    if wanted in every:
        return wanted
    base = base_language(wanted)
    variants = [code for code in every if base_language(code) == base]
    if len(variants) < 2 or base in variants:
        return base if base in variants else next(iter(variants), None)
    raise SeqloomError(
        f"{path} has several variants of {wanted}: {', '.join(variants)}.",
        f"name one of them, e.g. --languages {variants[0]},...",
    )


def code_of(text: str | None) -> str | None:
    """Return a language code in the usual letter case; a text that is not one stays as it is, in lower case."""
    if not text or not text.strip():
        return None
    return language_code(text) or text.strip().lower()
