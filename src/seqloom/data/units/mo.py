"""Compiled gettext catalogues: MO files."""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from collections.abc import Iterator

from seqloom.data.lines import display_name, opened
from seqloom.data.units.po import header_languages, locale_of, plural_units, text_codec
from seqloom.data.units.unit import Unit, in_languages
from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair
from seqloom.limits import CATALOG_BYTES

_MAGIC = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}
_HEADER_BYTES = 20
_CONTEXT = "\x04"  # separates the context of a text from the text
_CHARSET = re.compile(rb"charset=([\w.:-]+)")


def read_mo(path: str, languages: LanguagePair | None) -> Iterator[Unit]:
    """Yield a unit for each text of a catalogue, in their order; its line is the number of the text."""
    data = _content(path)
    file_source, file_target, charset = None, locale_of(path), "utf-8"
    for number, (key, value) in enumerate(_strings(data, path), 1):
        if not key:
            match = _CHARSET.search(value)
            charset = text_codec(match[1].decode("ascii"), path) if match else charset
            file_source, named = header_languages(value.decode(charset, "replace"))
            file_target = named or file_target
            continue
        try:
            singular, *plural = key.decode(charset).rpartition(_CONTEXT)[2].split("\0")
            forms = value.decode(charset).split("\0")
        except ValueError:
            yield Unit(number, "", fault=f"text is not valid {charset}")
            continue
        units = plural_units(number, singular, "".join(plural[:1]), forms, "")
        yield from in_languages(units, file_source, file_target, languages)


def _content(path: str) -> bytes:
    try:
        with opened(path) as stream:
            data = stream.read(CATALOG_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(path) from error
    if len(data) > CATALOG_BYTES:
        raise SeqloomError(f"{path} has more than {CATALOG_BYTES:,} bytes.", "check the file")
    return data


def _strings(data: bytes, path: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the texts and translations; texts may share bytes, so their total length is limited."""
    order = _MAGIC.get(data[:4])
    if order is None or len(data) < _HEADER_BYTES:
        raise SeqloomError(f"{display_name(path)} is not an MO file.", "compile it with msgfmt")
    _, count, keys, values = struct.unpack(f"{order}4I", data[4:_HEADER_BYTES])
    total = 0
    for number in range(count):
        places = []
        for table in (keys, values):
            entry = data[table + 8 * number : table + 8 * number + 8]
            if len(entry) < 8:
                raise _damaged(path)
            places.append(struct.unpack(f"{order}2I", entry))
        (key_length, key), (value_length, value) = places
        total += key_length + value_length
        if max(key + key_length, value + value_length) > len(data) or total > len(data):
            raise _damaged(path)
        yield data[key : key + key_length], data[value : value + value_length]


def _damaged(path: str) -> SeqloomError:
    return SeqloomError(f"{display_name(path)} is damaged or incomplete.", "compile it again with msgfmt")
