"""Glossaries: terms with the translations that an output must use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from seqloom.data.lines import lines
from seqloom.data.units.unit import choose_variant, code_of
from seqloom.document.safe_xml import local_name, parse_xml
from seqloom.errors import SeqloomError
from seqloom.text.word_edges import in_word

if TYPE_CHECKING:
    from lxml.etree import _Element

_SEPARATOR = "|"
_SHOWN = 20  # languages in an error message
_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Term(NamedTuple):
    """A term: its forms in the source language, and those in the target language, of which any one is right."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def used_in(self, output: str) -> bool:
        """Return whether an output contains one of the target forms as complete words."""
        return any(_pattern([form]).search(output) for form in self.forms)

    @property
    def forms(self) -> tuple[str, ...]:
        """Target forms, also with a capital letter as at the beginning of a sentence."""
        return tuple(dict.fromkeys([*self.targets, *(form[:1].upper() + form[1:] for form in self.targets)]))


class Glossary:
    """Terms and the translations that an output must use."""

    def __init__(self, terms: Iterable[Term]) -> None:
        self.terms = tuple(terms)
        self._by_form: dict[str, Term] = {}
        for term in self.terms:
            for form in term.sources:
                self._by_form.setdefault(form, term)
                if form == form.lower():  # a lower-case term also matches other letter cases
                    self._by_form.setdefault(form.casefold(), term)

    @classmethod
    def read(cls, path: str, languages: tuple[str, str] | None = None) -> Self:
        """Read a table (source, target), in which | separates forms, or a TBX file with these languages."""
        if Path(path).suffix.lower() in (".tbx", ".xml"):
            return cls(_read_tbx(path, languages))
        return cls(_read_table(path))

    @cached_property
    def _source_pattern(self) -> re.Pattern[str]:
        return _pattern([form for term in self.terms for form in term.sources], re.IGNORECASE)

    def find(self, source: str) -> list[Term]:
        """Return the terms that a source contains as complete words, longest match first, each once."""
        if not self.terms:
            return []
        found = []
        for match in self._source_pattern.finditer(source):
            form = " ".join(match[0].split())
            term = self._by_form.get(form) or self._by_form.get(form.casefold())
            if term is not None:
                found.append(term)
        return list(dict.fromkeys(found))


def _pattern(forms: Sequence[str], flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that matches any of the forms as complete words, the longest one first."""
    longest_first = sorted(set(forms), key=lambda form: (-len(form), form))
    return re.compile("|".join(map(_as_words, longest_first)), flags)


def _as_words(form: str) -> str:
    """Return the pattern of a form; scripts without spaces between words have no word boundaries."""
    left = r"(?<!\w)" if in_word(form[0]) else ""
    right = r"(?!\w)" if in_word(form[-1]) else ""
    return left + r"\s+".join(map(re.escape, form.split())) + right


def _read_table(path: str) -> list[Term]:
    terms = []
    for number, line in enumerate(lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t")
        sources, targets = (_forms(cell) for cell in (*cells, "", "")[:2])
        if not sources or not targets:
            raise SeqloomError(
                f"{path}, line {number} is not a term: {line!r}.",
                "write source, tab, target; separate the forms of a word with |, e.g. house|houses",
            )
        terms.append(Term(sources, targets))
    return terms


def _forms(cell: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(form for part in cell.split(_SEPARATOR) if (form := " ".join(part.split()))))


def _read_tbx(path: str, languages: tuple[str, str] | None) -> list[Term]:
    """Read the entries of TBX (ISO 30042), version 2 (termEntry, langSet) or 3 (conceptEntry, langSec)."""
    if languages is None:
        raise SeqloomError(
            f"{path} may have terms in several languages.", "name two of them, e.g. --languages en-de"
        )
    entries = [one for one in parse_xml(path).iter() if local_name(one) in ("termEntry", "conceptEntry")]
    codes = {code for entry in entries for section in entry if (code := _code(section))}
    source, target = (choose_variant(codes, wanted, path) for wanted in languages)
    found = ((_forms_in(entry, source), _forms_in(entry, target)) for entry in entries)
    terms = [Term(*pair) for pair in found if all(pair)]
    if not terms:
        raise SeqloomError(
            f"{path} has no terms in {languages[0]} and {languages[1]}.",
            f"its languages are: {', '.join(sorted(codes)[:_SHOWN]) or 'none'}",
        )
    return terms


def _code(section: _Element) -> str | None:
    return code_of(section.get(_XML_LANGUAGE))


def _forms_in(entry: _Element, language: str | None) -> tuple[str, ...]:
    """Return the terms of an entry in a language."""
    sections = (one for one in entry if language is not None and _code(one) == language)
    terms = (one for section in sections for one in section.iter() if local_name(one) == "term")
    return tuple(dict.fromkeys(text for one in terms if (text := " ".join("".join(one.itertext()).split()))))
