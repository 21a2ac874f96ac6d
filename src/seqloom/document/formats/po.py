"""Message catalogues of gettext (PO): each `msgstr` becomes the translation of its `msgid`."""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from seqloom.data.units.po import CONTROLS, header_languages, po_string
from seqloom.document.formats.base import Languages, TextFormat, lines_of, without_end
from seqloom.document.segments import TOO_LONG, Atom, Block, InPlace, SegmentedBlock, raw, text_atoms
from seqloom.errors import SeqloomError
from seqloom.limits import BLOCK_CHARACTERS

if TYPE_CHECKING:
    from seqloom.document.document import TranslatedSegment

_ESCAPES = {"\\": "\\\\", '"': '\\"', **{control: f"\\{letter}" for letter, control in CONTROLS.items()}}
_PLURALS = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;\n]{1,400})")


@dataclass
class _Entry:
    """Entry of a catalogue: its lines, and the text and lines of each field."""

    number: int  # of its first line in the file
    lines: list[str] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)
    of_field: dict[str, list[int]] = field(default_factory=dict)  # indices of its lines
    new: dict[str, str] = field(default_factory=dict)  # translations, filled by the writers
    is_doubtful: set[str] = field(default_factory=set)  # fields whose translation has flags

    @property
    def text(self) -> str:
        """The entry in the file."""
        return "".join(self.lines)

    @property
    def slots(self) -> list[str]:
        """Names of the fields of the translation that the file has."""
        return [name for name in self.fields if name.startswith("msgstr")]

    @property
    def is_fuzzy(self) -> bool:
        """Whether the translation is marked as not checked."""
        return any(line.startswith("#,") and "fuzzy" in line for line in self.lines)

    def translated(self) -> str:
        """Return the entry with its new translations."""
        if all(self.fields.get(name) == text for name, text in self.new.items()):
            return self.text
        first = min(i for name in self.slots for i in self.of_field[name])
        end = "\r\n" if self.lines[first].endswith("\r\n") else "\n"
        replaced = {i for name in self.slots for i in self.of_field[name]}
        result = []
        for i, line in enumerate(self.lines):
            if i == first:
                result += [_field(name, text, end) for name, text in self.new.items()]
            if i in replaced or line.startswith("#|"):
                continue
            result.append(_without_fuzzy(line) if line.startswith("#,") else line)
        if self.is_doubtful:
            at = min(self.of_field[name][0] for name in ("msgctxt", "msgid") if name in self.of_field)
            result.insert(len([i for i in range(at) if self._stays(i)]), f"#, fuzzy{end}")
        if not self.lines[-1].endswith("\n"):
            result[-1] = without_end(result[-1])
        return "".join(result)

    def _stays(self, i: int) -> bool:
        return not self.lines[i].startswith("#|")


class PoSlot(InPlace):
    """Writer of one field of a translation; that of the last field writes the entry."""

    def __init__(self, entry: _Entry, name: str, *, is_last: bool) -> None:
        self._entry, self._name, self._is_last = entry, name, is_last

    def write(self, unit: SegmentedBlock, atoms: Sequence[Atom], segments: Sequence[TranslatedSegment]) -> str:
        """Return the entry; an entry with suspicious translations is marked as fuzzy."""
        self._entry.new[self._name] = raw(atoms)
        doubtful = any(one.flags for one in segments)
        (self._entry.is_doubtful.add if doubtful else self._entry.is_doubtful.discard)(self._name)
        return self._entry.translated() if self._is_last else ""


class Po(TextFormat):
    """PO and POT files."""

    declaration = re.compile(rb"charset=(?!CHARSET)([\w:.-]+)")
    convert = "convert it first: msgconv --to-code=UTF-8"

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for each field of a translation."""
        slots: list[str] = []
        for entry in _entries(text, name):
            if "msgid" not in entry.fields:
                yield entry.text
            elif not entry.fields["msgid"]:  # the header
                slots = _plural_sources(entry.fields.get("msgstr", ""))
                yield entry.text
            elif "msgid_plural" in entry.fields:
                found = slots or ["msgid", *["msgid_plural"] * (len(entry.slots) - 1)]
                yield from _blocks(entry, [(f"msgstr[{i}]", source) for i, source in enumerate(found)])
            else:
                yield from _blocks(entry, [("msgstr", "msgid")])

    def languages(self, text: str) -> Languages:
        """Return the languages of the header."""
        header = next(_entries(text, ""))
        return header_languages(header.fields.get("msgstr", "") if not header.fields.get("msgid") else "")


def _blocks(entry: _Entry, sources: Sequence[tuple[str, str]]) -> Iterator[Block]:
    values = [entry.fields.get(name, "") for name, _ in sources]
    existing = "\n".join(filter(None, values))
    is_long = any(len(entry.fields[source]) > BLOCK_CHARACTERS for _, source in sources)
    for i, (name, source) in enumerate(sources):
        is_last = i + 1 == len(sources)
        yield Block(
            text_atoms(entry.fields[source]),
            f"line {entry.number + entry.of_field[source][0]}",
            PoSlot(entry, name, is_last=is_last),
            existing=existing,
            status="fuzzy" if entry.is_fuzzy else "translated",
            original=entry.text if is_last else "",
            skip=TOO_LONG if is_long else "",  # the entry is written as a whole
            is_complete=len(sources) > 1,
        )


def _plural_sources(header: str) -> list[str]:
    """Return for each plural form of the target language the source that it translates; nothing if unknown."""
    match = _PLURALS.search(header)
    if match is None:
        return []
    try:
        plural = cast("Callable[[int], int]", cast("Any", gettext).c2py(match[2].strip()))
        singular = plural(1)
    except (ValueError, ArithmeticError, RecursionError):
        return []
    count = int(match[1])
    if count == 1:
        return ["msgid_plural"]
    return ["msgid" if i == singular else "msgid_plural" for i in range(count)]


def _entries(text: str, name: str) -> Iterator[_Entry]:
    """Yield the entries; white space, comments and obsolete entries belong to an entry beside them."""
    # The reader of training data keeps no lines, to read files of any size, and skips malformed entries.
    entry, current = _Entry(1), ""
    for number, line in lines_of(text):
        content = without_end(line).removeprefix("\ufeff")
        is_text = bool(content.strip()) and not content.startswith("#")
        string = po_string(content.strip()) if is_text else None
        starts = content.startswith("#") or (string and string.keyword in ("msgctxt", "msgid"))
        if starts and entry.slots:
            yield entry
            entry, current = _Entry(number), ""
        entry.lines.append(line)
        if not is_text:
            current = ""
            continue
        if string is None or not (string.keyword or current):
            raise _unexpected(name, number, content)
        if string.keyword:
            current = string.keyword
            if current in entry.fields or (current.startswith("msgstr") and "msgid" not in entry.fields):
                raise _unexpected(name, number, content)
        entry.fields[current] = entry.fields.get(current, "") + string.text
        entry.of_field.setdefault(current, []).append(len(entry.lines) - 1)
    if "msgid" in entry.fields and not entry.slots:
        raise SeqloomError(f"{name} ends before the msgstr of its last entry.", "check it with msgfmt --check")
    yield entry


def _unexpected(name: str, number: int, content: str) -> SeqloomError:
    return SeqloomError(
        f"{name}, line {number} is not valid PO: {content.strip()[:200]!r}.",
        "check the file with msgfmt --check",
    )


def _field(name: str, text: str, end: str) -> str:
    """Return a field in the file: on one line, or one line for each line of the text."""
    quoted = [f'"{_escaped(line)}"' for line in re.findall(r"[^\n]*\n|[^\n]+", text)] or ['""']
    if len(quoted) > 1:
        quoted.insert(0, '""')
    return f"{name} {end.join(quoted)}{end}"


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)


def _without_fuzzy(line: str) -> str:
    """Return a line of flags without `fuzzy`; empty if there are no other ones."""
    content = without_end(line)
    flags = [flag.strip() for flag in content[2:].split(",")]
    if "fuzzy" not in flags:
        return line
    others = [flag for flag in flags if flag not in ("fuzzy", "")]
    return f"#, {', '.join(others)}{line[len(content) :]}" if others else ""


FORMAT = Po()
