"""XLIFF 1.2 and 2.x: each target becomes the translation of its source, with a state and a quality."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from seqloom.data.units.unit import code_of
from seqloom.document.formats.base import Languages, TextFormat
from seqloom.document.formats.tags import MarkupPiece, MarkupText, element, joined, pieces, text_atoms
from seqloom.document.safe_xml import local_name, parse_xml_bytes
from seqloom.document.segments import Atom, Block, Role, SegmentedBlock, raw
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.document.document import TranslatedSegment

_OPAQUE = ("ph", "it", "bpt", "ept")  # elements that contain code of the original document
_UNTRANSLATED = ("new", "needs-translation")  # states of targets that often are a copy of the source
_PROLOG = re.compile(r"\A\ufeff?\s*<\?xml[^>]*\?>")
_STARTS = {"bpt": "rid id", "bx": "rid id", "sc": "id"}  # tags whose partner is another element
_ENDS = {"ept": "rid id", "ex": "rid id", "ec": "startRef"}


class Parts(NamedTuple):
    """Unit of translation in the file: what stands before, in and after its target."""

    head: tuple[MarkupPiece, ...]
    indent: str  # white space before a new target
    start: str  # tag of the target; empty if there is none
    content: str
    end: str
    is_version_1: bool


class Target(MarkupText):
    """Writer of a target."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def write(self, unit: SegmentedBlock, atoms: Sequence[Atom], segments: Sequence[TranslatedSegment]) -> str:
        """Return the unit up to its target; it stays as it is if the translation is not new."""
        parts, content = self._parts, raw(atoms)
        if parts.start and content == parts.content and not parts.start.endswith("/>"):
            return unit.block.original or ""
        doubtful, quality = any(one.flags for one in segments), _quality(segments)
        head = joined(parts.head)
        prefix = re.match(r"</?(\w+:)?", parts.start or _last_tag(parts.head))
        name = f"{(prefix and prefix[1]) or ''}target"
        start = re.sub(r"\s*/>\Z", ">", parts.start) or f"<{name}>"
        if not parts.is_version_1:
            first = parts.head[0].raw
            states = {"state": "initial" if doubtful else "translated"}
            if doubtful or quality is not None:
                states["subState"] = f"seqloom:{'review' if doubtful else f'quality-{quality}'}"
            return f"{_with(first, states)}{head[len(first) :]}{parts.indent}{start}{content}</{name}>"
        state = "needs-review-translation" if doubtful else "translated"
        start = _with(start, {"state": state, "state-qualifier": _qualifier(segments)})
        target = f"{head}{parts.indent}{start}{content}</{name}>"
        if quality is None:
            return target
        alternative = (
            f'{parts.indent}<{name[:-6]}alt-trans match-quality="{quality}%" origin="seqloom"><{name}>'
        )
        return f"{target}{alternative}{content}</{name}></{name[:-6]}alt-trans>"


class Xliff(TextFormat):
    """XLIFF."""

    declaration = re.compile(rb"<\?xml[^>]*encoding=[\"']([\w.:-]+)")
    escapes = "xmlcharrefreplace"

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for each trans-unit (1.2) or segment (2.x)."""
        root = parse_xml_bytes(_PROLOG.sub("", text).encode(), name).getroot()
        if local_name(root) != "xliff":
            raise SeqloomError(f"{name} is not XLIFF: its root is {local_name(root)!r}.", "check the --format")
        version_1 = (root.get("version") or "1").startswith("1")
        own = "trans-unit" if version_1 else "segment"
        # The reader of training data uses lxml, which does not keep the file as it is written.
        parts, i, kept, unit = list(pieces(text)), 0, list[bool](), ""
        while i < len(parts):
            piece = parts[i]
            if piece.kind == "start" and piece.name == own:
                end = element(parts, i)
                is_kept = piece.attribute("translate") == "no" or (bool(kept) and kept[-1])
                yield from _unit(parts[i:end], unit, version_1=version_1, is_kept=is_kept)
                i = end
                continue
            if piece.kind == "start":
                answer = piece.attribute("translate")
                kept.append(answer == "no" if answer else bool(kept) and kept[-1])
                unit = (piece.attribute("id") or "") if piece.name == "unit" else unit
            elif piece.kind == "end":
                kept.pop()
            yield piece.raw
            i += 1

    def languages(self, text: str) -> Languages:
        """Return the languages of the first file."""
        found: dict[str, str] = {}
        for piece in takewhile(lambda piece: piece.name not in ("trans-unit", "unit"), pieces(text)):
            if piece.kind == "start" and piece.name in ("xliff", "file"):
                found |= {one.name: one.value for one in piece.attributes()}
        source = found.get("source-language") or found.get("srcLang")
        return code_of(source), code_of(found.get("target-language") or found.get("trgLang"))


def _unit(parts: Sequence[MarkupPiece], unit: str, *, version_1: bool, is_kept: bool) -> Iterator[str | Block]:
    """Yield the block of a unit and what follows its target."""
    found: dict[str, tuple[int, int]] = {}
    i = 1
    while i < len(parts) - 1:
        end = element(parts, i)
        if parts[i].kind in ("start", "empty"):
            found.setdefault(parts[i].name, (i, end))
        i = end
    if "source" not in found:
        yield joined(parts)
        return
    first, last = found.get("seg-source", found["source"])
    source = parts[first + 1 : last - 1] if parts[first].kind == "start" else ()
    before = parts[found["source"][0] - 1]
    indent = before.raw if before.kind == "text" and not before.raw.strip() else ""
    start, end = found.get("target", (last, last))
    target = parts[start:end]
    content = joined(target[1:-1])
    layout = Parts(
        tuple(parts[:start]),
        "" if target else indent,
        target[0].raw if target else "",
        content,
        target[-1].raw if len(target) > 1 else "",
        version_1,
    )
    own = parts[0].attribute("id")
    state = (target[0].attribute("state") if target else None) or "translated"
    existing = "" if state in _UNTRANSLATED else "".join(atom.text for atom in _atoms(target[1:-1]))
    yield Block(
        tuple(_atoms(source)),
        ".".join(filter(None, (unit, own))),
        Target(layout),
        existing=existing.strip(),
        status=state,
        original=joined(parts[:end]),
        skip="translate=no" if is_kept else "",
    )
    yield joined(parts[end:])


def _atoms(parts: Sequence[MarkupPiece]) -> Iterator[Atom]:
    i = 0
    while i < len(parts):
        piece, end = parts[i], i + 1
        if piece.kind == "text":
            yield from text_atoms(piece.raw, collapse=False)
        elif piece.kind == "start" and piece.name in _OPAQUE:
            end = element(parts, i)
            yield Atom("", joined(parts[i:end]), *_role(piece))
        elif piece.kind in ("empty", "other"):
            yield Atom("", piece.raw, *_role(piece))
        else:
            yield Atom("", piece.raw, "open" if piece.kind == "start" else "close", piece.name)
        i = end


def _role(piece: MarkupPiece) -> tuple[Role, str]:
    """Return the role and name of an element whose partner is another element."""
    roles: tuple[tuple[Role, dict[str, str]], ...] = (("open", _STARTS), ("close", _ENDS))
    for role, names in roles:
        if piece.name in names:
            key = next(filter(None, map(piece.attribute, names[piece.name].split())), "")
            return role, f"code {key}"
    return "single", ""


def _last_tag(head: Sequence[MarkupPiece]) -> str:
    return next((piece.raw for piece in reversed(head) if piece.kind in ("end", "empty")), "")


def _with(tag: str, attributes: dict[str, str]) -> str:
    """Return a tag with these attributes set."""
    for name, value in attributes.items():
        tag = re.sub(rf"\s{name}\s*=\s*(?:\"[^\"]*\"|'[^']*')", "", tag)
        tag = f'{tag[:-1]} {name}="{escape(value)}">'
    return tag


def _quality(segments: Sequence[TranslatedSegment]) -> int | None:
    """Return the mean probability of a token in percent, of the least probable segment; None if unknown."""
    scores = [one.confidence for one in segments]
    known = [one for one in scores if one is not None]
    return (
        round(100 * min(known)) if known and len(known) == len(scores) and not math.isnan(min(known)) else None
    )


def _qualifier(segments: Sequence[TranslatedSegment]) -> str:
    return "exact-match" if segments and all(one.is_from_memory for one in segments) else "mt-suggestion"


FORMAT = Xliff()
