"""Entries of gettext catalogues: PO files, read line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from seqloom.data.lines import codec_of, display_name, opened, raw_lines
from seqloom.data.units.unit import (
    FUZZY,
    OBSOLETE,
    OTHER_PLURAL,
    Unit,
    code_of,
    in_languages,
    pair_unit,
)
from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair, language_code
from seqloom.limits import LINE_BYTES, UNIT_BYTES

_START = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,3}\])?)?\s*"')
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))")
CONTROLS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
}  # by the letter of their escape
_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_HEADER_BYTES = 1 << 14  # the charset is in the first entry
_MALFORMED = "malformed PO entry"


class PoString(NamedTuple):
    """Text of one line with the keyword before it, which is empty if the line continues the one before."""

    keyword: str
    text: str


@dataclass
class Entry:
    """An entry of a catalogue: its texts by keyword, and its flags."""

    line: int
    texts: dict[str, list[str]] = field(default_factory=dict)  # msgid, msgid_plural, msgstr[0]; in parts
    flags: set[str] = field(default_factory=set)
    obsolete: bool = False
    fault: str = ""
    size: int = 0
    last: str = ""  # keyword that the next string continues

    def text(self, keyword: str) -> str:
        """Return the text of a keyword; empty if the entry does not have it."""
        return "".join(self.texts.get(keyword, ()))

    @property
    def translations(self) -> list[str]:
        """The translation, or its plural forms in order."""
        forms = sorted((key for key in self.texts if key.startswith("msgstr")), key=lambda key: (len(key), key))
        return [self.text(key) for key in forms]


def read_po(path: str, languages: LanguagePair | None) -> Iterator[Unit]:
    """Yield a unit for each entry, and for each plural form: singular and first form, plural and last form."""
    file_source, file_target = None, locale_of(path)
    for entry in read_entries(path):
        if entry.fault:
            yield Unit(entry.line, entry.text("msgid"), fault=entry.fault)
        elif not entry.text("msgid") and not entry.obsolete:
            source, target = header_languages(entry.text("msgstr"))
            file_source, file_target = source, target or file_target
        else:
            reason = OBSOLETE if entry.obsolete else FUZZY if "fuzzy" in entry.flags else ""
            plural = entry.text("msgid_plural")
            units = plural_units(entry.line, entry.text("msgid"), plural, entry.translations, reason)
            yield from in_languages(units, file_source, file_target, languages)


def plural_units(line: int, singular: str, plural: str, forms: list[str], reason: str) -> Iterator[Unit]:
    """Yield the units of an entry; forms between the first and the last are not pairs."""
    if not plural:
        yield pair_unit(line, singular, "".join(forms[:1]), reason)
        return
    if len(forms) > 1:
        yield pair_unit(line, singular, forms[0], reason)
        for form in forms[1:-1]:
            yield pair_unit(line, plural, form, reason or OTHER_PLURAL)
    yield pair_unit(line, plural, "".join(forms[-1:]), reason)


def header_languages(header: str) -> tuple[str | None, str | None]:
    """Return the languages that the header of a catalogue names: X-Source-Language and Language."""
    lines = (line.partition(":") for line in header.splitlines())
    fields = {name.strip().lower(): value.strip() for name, _, value in lines}
    return code_of(fields.get("x-source-language")), code_of(fields.get("language"))


def locale_of(path: str) -> str | None:
    """Return the language that a path names: locale/de/LC_MESSAGES/django.po, or po/de.po."""
    parts = Path(path.removesuffix(".gz")).parts
    if "LC_MESSAGES" in parts[1:-1]:
        return language_code(parts[parts.index("LC_MESSAGES") - 1])
    return language_code(Path(parts[-1]).stem) if parts else None


def read_entries(path: str) -> Iterator[Entry]:
    """Yield the entries of a PO file in order; the first one is usually the header, whose msgid is empty."""
    entry: Entry | None = None
    for number, line in enumerate(_lines(path), 1):
        text = line.strip()
        obsolete = text.startswith("#~")
        if obsolete:
            text = text.removeprefix("#~").strip()
            if text.startswith("|"):
                continue  # the former text of an obsolete entry
        starts = text.startswith(("#", "msgctxt")) or (
            text.startswith("msgid") and not text.startswith("msgid_plural")
        )
        if entry and entry.texts and (not text or (starts and not _continues(entry, text))):
            yield _finished(entry)
            entry = None
        if not text:
            continue
        entry = entry or Entry(number)
        entry.obsolete = entry.obsolete or obsolete
        if text.startswith("#"):
            if text.startswith("#,"):
                entry.flags.update(flag.strip() for flag in text[2:].split(","))
            continue
        _add_line(entry, text, number)
    if entry and entry.texts:
        yield _finished(entry)


def _continues(entry: Entry, text: str) -> bool:
    """Return whether a line belongs to an entry that has text: its msgid after its context."""
    return text.startswith("msgid") and list(entry.texts) == ["msgctxt"]


def _add_line(entry: Entry, text: str, number: int) -> None:
    """Add a line with a keyword, or one that continues the text before it."""
    if not entry.texts:
        entry.line = number  # comments do not count
    string = po_string(text)
    keyword = (string and string.keyword) or entry.last
    if string is None or not keyword or (string.keyword and keyword in entry.texts):
        entry.fault = entry.fault or _MALFORMED
        entry.texts.setdefault("msgid", [])
        return
    entry.last = keyword
    entry.size += len(text)
    if entry.size > UNIT_BYTES:
        entry.fault = f"PO entry of more than {UNIT_BYTES:,} characters"
        return
    entry.texts.setdefault(keyword, []).append(string.text)


def po_string(line: str) -> PoString | None:
    """Return the string of a line without white space around it; None if the line is malformed."""
    match = _START.match(line)
    text = _unquoted(line[match.end() :]) if match else None
    return None if match is None or text is None else PoString(match[1] or "", text)


def _unquoted(text: str) -> str | None:
    """Return the string before a closing quotation mark that ends the line, with its escapes resolved."""
    inner = text.removesuffix('"')
    if inner == text:
        return None
    if "\\" in inner:
        rest = inner.replace("\\\\", "").replace('\\"', "")
        return None if '"' in rest or rest.endswith("\\") else _ESCAPE.sub(_character, inner)
    return None if '"' in inner else inner


def _finished(entry: Entry) -> Entry:
    has_texts = "msgid" in entry.texts and any(key.startswith("msgstr") for key in entry.texts)
    if not has_texts and not entry.fault:
        entry.fault = _MALFORMED
    return entry


def _character(match: re.Match[str]) -> str:
    octal, hexadecimal, character = match.groups()
    if character is not None:
        return CONTROLS.get(character, character)
    return chr(int(octal, 8) if octal else int(hexadecimal, 16))


def _lines(path: str) -> Iterator[str]:
    """Yield the lines in the charset of the header, by default UTF-8."""
    with opened(path) as stream:
        match = _CHARSET.search(stream.read(_HEADER_BYTES))
    charset = text_codec(match[1].decode("ascii") if match else "utf-8", path)
    if charset == "utf-8":
        yield from raw_lines(path)
        return
    with opened(path) as stream:
        for number, line in enumerate(iter(partial(stream.readline, LINE_BYTES), b""), 1):
            try:
                yield line.decode(charset)
            except ValueError as error:
                raise SeqloomError(
                    f"{display_name(path)}, line {number} is not valid {charset}, the charset of its header.",
                    "convert the file with msgconv --to-code=UTF-8",
                ) from error


def text_codec(charset: str, path: str) -> str:
    """Return the codec of the charset that a catalogue names; the template CHARSET stands for UTF-8."""
    name = codec_of("utf-8" if charset == "CHARSET" else charset)
    if not name:
        raise SeqloomError(
            f"{display_name(path)} has the unknown charset {charset}.",
            "convert the file with msgconv --to-code=UTF-8",
        )
    return "utf-8" if name == "ascii" else name
