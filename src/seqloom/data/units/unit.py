"""Translation units and the rules that select their languages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair, base_language, language_code, matches

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
    languages: str = ""  # those of the file, if the unit is skipped because of them

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

    A language that the file does not name matches any. Between variants of one language, such as `en` and
    `en-GB`, equal codes decide.
    """
    if wanted is None or (source, target) == wanted:
        return "forward"
    if (target, source) == wanted:
        return "reverse"
    found: tuple[tuple[Direction, LanguagePair], ...] = (("forward", wanted), ("reverse", wanted.reverse))
    for way, pair in found:
        if all(not code or matches(code, one) for code, one in zip((source, target), pair, strict=True)):
            return way
    return None


def in_languages(
    units: Iterable[Unit], source: str | None, target: str | None, wanted: LanguagePair | None
) -> Iterator[Unit]:
    """Yield the units of a file with these languages in the wanted direction; in other languages, skip them."""
    way = direction(source, target, wanted)
    for unit in units:
        if way:
            yield unit.turned(way)
        else:
            yield unit._replace(target=None, skipped=OTHER_LANGUAGES, languages=f"{source or '?'} to {target}")


def choose_variant(codes: Iterable[str], wanted: str, path: str) -> str | None:
    """Return the code that matches the wanted language: the same code, or else the only one.

    If several match, the one without script and region is chosen; without it, raise an error.
    """
    every = sorted(set(codes))
    if wanted in every:
        return wanted
    base = base_language(wanted)
    variants = [code for code in every if matches(code, wanted)]
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
