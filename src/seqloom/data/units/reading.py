"""Readers of translation units by format."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from seqloom.data.config import Format
from seqloom.data.lines import display_name
from seqloom.data.units.mo import read_mo
from seqloom.data.units.po import read_po
from seqloom.data.units.qt import read_ts
from seqloom.data.units.tmx import read_tmx
from seqloom.data.units.unit import Unit
from seqloom.data.units.xliff import read_xliff
from seqloom.errors import SeqloomError
from seqloom.files import is_special
from seqloom.languages import LanguagePair

UnitReader = Callable[[str, LanguagePair | None], Iterator[Unit]]

_READERS: dict[Format, UnitReader] = {
    "tmx": read_tmx,
    "xliff": read_xliff,
    "ts": read_ts,
    "po": read_po,
    "mo": read_mo,
}


def has_units(format: Format) -> bool:
    """Return whether files of a format consist of translation units."""
    return format in _READERS


def read_units(path: str, format: Format, languages: LanguagePair | None) -> Iterator[Unit]:
    """Yield the units of a file."""
    if path == "-" or is_special(path):
        raise SeqloomError(
            f"Cannot read the format {format} from {display_name(path)}, which is a stream.", "use a file"
        )
    return _READERS[format](path, languages)
