"""Translation memories in TMX: units with one text per language."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from seqloom.data.units.inline import InlineText
from seqloom.data.units.unit import OTHER_LANGUAGES, Unit, choose_variant, code_of, pair_unit
from seqloom.data.xml_stream import child, local_name, stream_elements
from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair

if TYPE_CHECKING:
    from lxml.etree import _Element

_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_ALL = "*all*"  # srclang of a memory whose units have no common source language
_SHOWN = 20  # languages in an error message
_MAX_LANGUAGES = 1000


class _Languages(NamedTuple):
    """Languages of a memory."""

    source: str | None  # srclang of the header
    codes: tuple[str, ...]


def read_tmx(path: str, languages: LanguagePair | None) -> Iterator[Unit]:
    """Yield a unit for each translation of a memory in these languages, or in the only two that it has."""
    source, target = _chosen(path, languages)
    others = "" if source and target else _shown(languages_of(path).codes)
    for unit in stream_elements(path, ["tu"]):
        if source is None or target is None:
            yield Unit(int(unit.sourceline or 0), "", None, OTHER_LANGUAGES, languages=others)
            continue
        texts = InlineText()
        sources = [texts.text(segment) for segment in _segments(unit, source)]
        targets = [texts.text(segment) for segment in _segments(unit, target)]
        line = int(unit.sourceline or 0)
        if not sources or not targets:
            shown = next(iter([*sources, *targets]), "")
            yield Unit(line, shown if sources else "", None, f"unit without {target if sources else source}")
            continue
        for text in targets:
            yield pair_unit(line, sources[0], text)
        for text in sources[1:]:
            yield pair_unit(line, text, targets[0])


def _shown(codes: tuple[str, ...]) -> str:
    return ", ".join(codes[:_SHOWN]) or "none"


def _chosen(path: str, wanted: LanguagePair | None) -> tuple[str | None, str | None]:
    """Return the codes of the source and target language as the memory has them; None if it has not."""
    source, codes = languages_of(path)
    if wanted is None:
        others = [code for code in codes if code != source]
        if source is None or len(others) != 1:
            hint = f"--languages {','.join(codes[:2])}" if len(codes) > 1 else "--languages en-de"
            raise SeqloomError(
                f"{path} has texts in these languages: {_shown(codes)}; source and target are not given.",
                f"name them, e.g. {hint}",
            )
        return source, others[0]
    found = [choose_variant(codes, code, path) for code in wanted]
    if found[0] is not None and found[0] == found[1]:
        raise SeqloomError(f"Source and target are the same language of {path}: {found[0]}.", "name two")
    return found[0], found[1]


def languages_of(path: str) -> _Languages:
    """Return the languages of a memory, which one pass over the file finds."""
    try:
        stat = os.stat(path)
    except OSError:
        return _languages(path, 0, 0)  # raises the usual error
    return _languages(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=64)
def _languages(path: str, _time: int, _size: int) -> _Languages:
    codes: dict[str, None] = {}
    source: str | None = None
    for unit in stream_elements(path, ["tu"]):
        if source is None:
            header = child(unit.getroottree().getroot(), "header")
            source = code_of(header.get("srclang")) if header is not None else None
            source = source or _ALL
        codes.update((code, None) for one in unit if (code := _code(one)))
        if len(codes) > _MAX_LANGUAGES:
            raise SeqloomError(f"{path} has more than {_MAX_LANGUAGES:,} languages.", "check the file")
    if source is not None and source not in codes:
        source = None if source == _ALL else choose_variant(codes, source, path)
    return _Languages(source, tuple(sorted(codes)))


def _code(variant: _Element) -> str | None:
    """Return the language of a `tuv` element."""
    if local_name(variant) != "tuv":
        return None
    return code_of(variant.get(_XML_LANGUAGE) or variant.get("lang"))


def _segments(unit: _Element, code: str) -> Iterator[_Element]:
    for variant in unit:
        segment = child(variant, "seg") if _code(variant) == code else None
        if segment is not None:
            yield segment
