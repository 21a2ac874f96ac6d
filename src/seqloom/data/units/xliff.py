"""XLIFF 1.2 and 2.0: units with a source and a translation, which may be unfinished."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seqloom.data.units.inline import InlineText
from seqloom.data.units.unit import (
    FUZZY,
    NOT_TRANSLATABLE,
    Unit,
    code_of,
    in_languages,
    pair_unit,
)
from seqloom.data.xml_stream import child, local_name, stream_elements
from seqloom.languages import LanguagePair

if TYPE_CHECKING:
    from lxml.etree import _Element

_FUZZY_STATES = ("new", "initial", "needs-")  # the beginnings of states before a translation is complete
_FUZZY_QUALIFIERS = ("fuzzy-match", "leveraged-mt", "leveraged-tm", "mt-suggestion")


def read_xliff(path: str, languages: LanguagePair | None) -> Iterator[Unit]:
    """Yield a unit for each `trans-unit` (XLIFF 1.2) or `segment` (2.0), or for its marked segments."""
    for element in stream_elements(path, ["trans-unit", "segment"], ["unit", "group", "file", "bin-unit"]):
        yield from in_languages(_units(element), *_languages(element), languages)


def _languages(element: _Element) -> tuple[str | None, str | None]:
    """Return the languages of the file that a unit is in; its root has them in XLIFF 2."""
    source = target = None
    for above in element.iterancestors():
        source = source or code_of(above.get("source-language") or above.get("srcLang"))
        target = target or code_of(above.get("target-language") or above.get("trgLang"))
    return source, target


def _units(element: _Element) -> Iterator[Unit]:
    texts, line = InlineText(), int(element.sourceline or 0)
    source, target = child(element, "source"), child(element, "target")
    if source is None:
        yield Unit(line, "", fault="unit without source")
        return
    reason = _reason(element, target)
    marked = child(element, "seg-source")
    segments = _marked(marked) if marked is not None else {}
    if not segments:
        text = texts.text(source)
        yield pair_unit(line, text, "" if target is None else texts.text(target), reason)
        return
    translated = {} if target is None else _marked(target)
    for name, segment in segments.items():
        text = texts.text(segment)
        yield pair_unit(line, text, texts.text(translated[name]) if name in translated else "", reason)


def _marked(element: _Element) -> dict[str, _Element]:
    """Return the segments that a tool has marked inside a unit, by their names."""
    return {
        mark.get("mid", ""): mark
        for mark in element.iter()
        if local_name(mark) == "mrk" and mark.get("mtype") == "seg"
    }


def _reason(unit: _Element, target: _Element | None) -> str:
    """Return why a unit is not used for training; empty if it is."""
    above = (unit, *unit.iterancestors())
    if next((one.get("translate") for one in above if one.get("translate")), "yes") == "no":
        return NOT_TRANSLATABLE
    state = (unit.get("state") or ("" if target is None else target.get("state"))) or ""
    qualifier = "" if target is None else target.get("state-qualifier") or ""
    if unit.get("approved") == "no" or state.startswith(_FUZZY_STATES) or qualifier in _FUZZY_QUALIFIERS:
        return FUZZY
    return ""
