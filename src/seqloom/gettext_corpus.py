"""A parallel corpus of short texts: the gettext catalogues of installed packages.

The text depends on the packages that are installed and on their versions, which the report records with their
licences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePath
from typing import NamedTuple

from seqloom.data.readers import read
from seqloom.data.report import DataReport
from seqloom.data.units.po import locale_of
from seqloom.data.units.unit import choose_variant
from seqloom.docstrings import PARTS, add_shingles, split_by_package
from seqloom.document.placeholders import PlaceholderFinder, without
from seqloom.errors import SeqloomError
from seqloom.files import write_json
from seqloom.languages import LanguagePair
from seqloom.outputs import check_can_write, write_output
from seqloom.progress import counter
from seqloom.strict_json import json_text
from seqloom.types import Example

_WORD = re.compile(r"[^\W\d_]+")
_SHINGLED_WORDS = 5  # in texts of at least this length, common word n-grams make a near duplicate
_LICENCE_CHARACTERS = 60


class Catalogue(NamedTuple):
    """A catalogue of an installed package."""

    package: str
    group: str  # folder of the locales: all languages of one application
    language: str
    path: Path


class GettextPair(NamedTuple):
    """Text and translation of one entry."""

    source: str
    target: str
    package: str  # the group of its catalogue, which is never divided


@dataclass
class GettextCounts:
    """What was read, kept and dropped."""

    languages: str
    packages: dict[str, dict[str, str]] = field(default_factory=dict)  # version and licence by name
    catalogues: int = 0
    left_out: dict[str, str] = field(default_factory=dict)  # reason by group, e.g. a damaged catalogue
    units: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # units by reason, such as fuzzy
    duplicates: int = 0
    near_duplicates: int = 0
    parts: dict[str, Counter[str]] = field(default_factory=dict)  # pairs by part and group

    def summary(self) -> str:
        """Return the counts as text."""
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in self.skipped.most_common())
        lines = [f"{self.units:,} units in {self.catalogues} catalogues, {self.languages}"]
        lines += [f"{name} {one['version']}: {one['licence']}" for name, one in self.packages.items()]
        lines += [f"left out: {group}: {reason}" for group, reason in self.left_out.items()]
        lines.append(
            f"dropped: {self.duplicates:,} duplicates, {self.near_duplicates:,} near duplicates"
            + (f", {skipped}" if skipped else "")
        )
        lines += [
            f"{name}: {found.total():,} pairs of {len(found)} groups" for name, found in self.parts.items()
        ]
        return "\n".join(lines)


def make_gettext(
    folder: Path, languages: LanguagePair, *, seed: int, count: int | None = None
) -> GettextCounts:
    """Write train.jsonl, valid.jsonl, test.jsonl and report.json, and return the counts."""
    folder.mkdir(parents=True, exist_ok=True)
    check_can_write(folder / "report.json")
    counts = GettextCounts(str(languages))
    found = list(distributions())
    chosen = choose_catalogues((one for dist in found for one in catalogues(dist)), languages, counts)
    pairs = collect(chosen, languages, counts)
    names = {one.package for one in chosen}
    counts.packages = {
        dist.name: {"version": dist.version, "licence": licence(dist)} for dist in found if dist.name in names
    }
    parts = split_by_package(pairs, seed=seed, count=count, what="different translated texts")
    counts.parts = {part: Counter(pair.package for pair in parts[part]) for part in PARTS}
    for part in PARTS:
        lines = (json_text({"source": pair.source, "target": pair.target}) for pair in parts[part])
        write_output(folder / f"{part}.jsonl", "".join(f"{line}\n" for line in lines))
    write_json(folder / "report.json", vars(counts))
    return counts


def catalogues(package: Distribution) -> Iterator[Catalogue]:
    """Yield the catalogues of a package; an MO file only if there is no PO file of the same name."""
    files = [file for file in package.files or () if file.suffix in (".po", ".mo")]
    texts = {file.with_suffix("") for file in files if file.suffix == ".po"}
    for file in sorted(files, key=str):
        language = locale_of(str(file))
        if language and (file.suffix == ".po" or file.with_suffix("") not in texts):
            group = _group(file, language)
            path = Path(str(file.locate()))
            if path.is_file():  # a package manager may install data files elsewhere
                yield Catalogue(package.name, group, language, path)


def _group(file: PurePath, language: str) -> str:
    """Return the path of a catalogue without its language: django/contrib/admin."""
    parts = list(file.parts)
    if "LC_MESSAGES" in parts:
        parts = parts[: parts.index("LC_MESSAGES") - 1]
    else:
        parts = parts[:-1]
    return "/".join(part for part in parts if part not in ("locale", "locales", "translations")) or language


def choose_catalogues(
    found: Iterable[Catalogue], languages: LanguagePair, counts: GettextCounts
) -> list[Catalogue]:
    """Return the catalogues of the language that is not English, the language of the texts in programs.

    Applications with several variants of the language, of which none is the one asked for, are left out.
    """
    wanted = languages.source if languages.target == "en" else languages.target
    groups: dict[str, list[Catalogue]] = {}
    for one in found:
        groups.setdefault(one.group, []).append(one)
    chosen = dict[str, str | None]()
    for group, every in groups.items():
        try:
            chosen[group] = choose_variant([one.language for one in every], wanted, group)
        except SeqloomError as error:
            chosen[group] = None
            counts.left_out[group] = str(error)
    return [one for group, every in sorted(groups.items()) for one in every if one.language == chosen[group]]


def collect(chosen: Iterable[Catalogue], languages: LanguagePair, counts: GettextCounts) -> list[GettextPair]:
    """Return the pairs of all catalogues without duplicates; `counts` is updated."""
    every, pairs = list(chosen), list[GettextPair]()
    seen, texts, shingles = set[str](), set[str](), set[int]()
    finder = PlaceholderFinder()
    with counter("read", total=len(every)) as advance:
        for catalogue in every:
            report = DataReport()
            examples = read(str(catalogue.path), languages=_of(catalogue, languages), report=report)
            for example in _until_error(examples, catalogue, counts):
                target = example.target or ""
                plain = without(example.source, finder.find(example.source))
                key = " ".join(_WORD.findall(plain.casefold()))
                if example.source in texts:
                    counts.duplicates += 1
                elif not key or key in seen or not _is_new(key, shingles):
                    counts.near_duplicates += 1
                else:
                    pairs.append(GettextPair(example.source, target, catalogue.group))
                texts.add(example.source)
                seen.add(key)
            counts.units += report.total
            counts.skipped += report.counts
            advance(1)
    counts.catalogues = len(every)
    return pairs


def _until_error(examples: Iterable[Example], catalogue: Catalogue, counts: GettextCounts) -> Iterator[Example]:
    """Yield the examples of a catalogue; an error, such as a wrong encoding, is recorded."""
    try:
        yield from examples
    except SeqloomError as error:
        counts.left_out[catalogue.group] = str(error)


def _of(catalogue: Catalogue, languages: LanguagePair) -> LanguagePair:
    """Return the languages to read, with the variant of the catalogue."""
    if languages.target == "en":
        return LanguagePair(catalogue.language, "en")
    return LanguagePair(languages.source, catalogue.language)


def _is_new(key: str, shingles: set[int]) -> bool:
    return len(key.split()) < _SHINGLED_WORDS or add_shingles(key, shingles)


def licence(package: Distribution) -> str:
    """Return the licence that the metadata of a package names."""
    data = package.metadata
    trove = [name.rpartition(" :: ")[2] for name in data.get_all("Classifier") or () if "License ::" in name]
    fields = {name: data[name] for name in ("License-Expression", "License") if name in data}
    lines = fields.get("License", "").strip().splitlines()
    given = fields.get("License-Expression") or ", ".join(trove) or "".join(lines[:1]) or "not stated"
    return given if len(given) <= _LICENCE_CHARACTERS else f"{given[: _LICENCE_CHARACTERS - 1]}…"


def check_languages(languages: LanguagePair | None) -> LanguagePair:
    """Return the languages; raise unless one of them is English, the language of the texts in programs."""
    if languages is None or list(languages).count("en") != 1:
        raise SeqloomError(
            "The task gettext needs English and another language.", "name them, e.g. --languages en-de"
        )
    return languages
