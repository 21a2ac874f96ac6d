"""Subtitles: SubRip (SRT) and WebVTT. The lines of a cue are translated together and broken again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import takewhile

from seqloom.data.units.subtitles import ENTITIES, ENTITY, TAG, TIMING, WEBVTT
from seqloom.document.formats.base import TextFormat, lines_of, without_end
from seqloom.document.segments import Atom, Block, InPlace

_NEW_SPEAKER = re.compile(r"\s*(?:<[^<>]*>|\{\\[^{}]*\})*\s*[-–—♪#>]")


class CueText(InPlace):
    """Text of a cue."""

    def may_break(self, text: str, space: int) -> bool:
        """Do not break lines where a timing would be read."""
        return not TIMING.match(text, space + 1)


class WebVttCueText(CueText):
    """Text of a cue in WebVTT, in which `<` and `&` are escaped."""

    def escape_character(self, character: str, plain: Set[str]) -> str:
        """Escape the characters of tags and entities."""
        return {"&": "&amp;", "<": "&lt;"}.get(character, character)


class Subtitles(TextFormat):
    """SRT and WebVTT."""

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for each cue: the lines after a timing up to an empty one."""
        is_vtt = text.removeprefix("\ufeff").startswith(WEBVTT)
        # Subtitles as training data are read as a stream of times and texts, without line ends and tags.
        lines = lines_of(text)
        for _, line in lines:
            yield line
            if not TIMING.match(line):
                continue
            cue = []
            ending = ""
            for number, own in lines:
                if not own.strip():
                    ending = own
                    break
                cue.append((number, own))
            if cue:
                atoms = tuple(_atoms([own for _, own in cue], is_vtt=is_vtt))
                yield Block(atoms, f"line {cue[0][0]}", _VTT if is_vtt else _SRT)
            yield ending


_SRT, _VTT = CueText(), WebVttCueText()


def _atoms(lines: list[str], *, is_vtt: bool) -> Iterator[Atom]:
    for i, line in enumerate(lines):
        content = without_end(line)
        yield from _line_atoms(content, is_vtt=is_vtt)
        end = line[len(content) :]
        if not end:
            continue
        is_last = i + 1 == len(lines)
        if is_last or _NEW_SPEAKER.match(lines[i + 1]):
            yield Atom("\n", end)
        else:
            yield Atom(" ", end, "space")


def _line_atoms(line: str, *, is_vtt: bool) -> Iterator[Atom]:
    position = 0
    for tag in TAG.finditer(line):
        yield from _text(line[position : tag.start()], is_vtt=is_vtt)
        yield _tag(tag[0])
        position = tag.end()
    yield from _text(line[position:], is_vtt=is_vtt)


def _tag(raw: str) -> Atom:
    name = "".join(takewhile(str.isalnum, raw.lstrip("</")))
    if not raw.startswith("<") or raw[1].isdigit():
        return Atom("", raw, "single")
    return Atom("", raw, "close" if raw[1] == "/" else "open", name.lower())


def _text(text: str, *, is_vtt: bool) -> Iterator[Atom]:
    position = 0
    for entity in ENTITY.finditer(text) if is_vtt else ():
        if position < entity.start():
            yield Atom(text[position : entity.start()], text[position : entity.start()])
        yield Atom(ENTITIES[entity[0]], entity[0])
        position = entity.end()
    if position < len(text):
        yield Atom(text[position:], text[position:])


FORMAT = Subtitles()
