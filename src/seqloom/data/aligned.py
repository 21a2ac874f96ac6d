"""Names of files that belong together because they differ only in a language code: film.en.srt, film.de.srt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from seqloom.languages import LanguagePair, base_language, language_code


def aligned_names(names: Iterable[str], languages: LanguagePair) -> list[tuple[str, str]]:
    """Return the pairs of names in the order of the sources; the code is a part between dots or a suffix."""
    sides: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for name in names:
        for side, code in zip(sides, languages, strict=True):
            for key in _keys(name, code):
                side.setdefault(key, name)
    return [(name, sides[1][key]) for key, name in sides[0].items() if sides[1].get(key, name) != name]


def _keys(name: str, code: str) -> Iterator[str]:
    """Yield the name with * in the place of the code, if it has the code."""
    path = PurePath(name)
    parts = path.name.split(".")
    for i in range(len(parts) - 1, 0, -1):
        if language_code(parts[i]) == code or parts[i] == base_language(code):
            yield str(path.with_name(".".join([*parts[:i], "*", *parts[i + 1 :]])))
