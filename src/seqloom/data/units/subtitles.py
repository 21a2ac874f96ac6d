"""Subtitles in two languages (SRT, WebVTT), aligned by time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from seqloom.data.lines import lines
from seqloom.data.units.unit import Unit
from seqloom.limits import UNIT_BYTES

NO_OTHER = "subtitle without one at the same time"

WEBVTT = "WEBVTT"  # beginning of a file in WebVTT
ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&nbsp;": "\u00a0", "&lrm;": "\u200e", "&rlm;": "\u200f"}
ENTITY = re.compile("|".join(ENTITIES))  # of WebVTT
TAG = re.compile(r"</?[A-Za-z][^<>]*>|<\d[\d:.]*>|\{\\[^{}]*\}")

_CLOCK = r"(?:(\d{1,9}):)?(\d{1,3}):(\d\d)[.,](\d{1,3})"
TIMING = re.compile(rf"[ \t]*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}")
_LARGEST_GROUP = 64  # cues
_OVERLAP = 0.5  # of the shorter of two cues that belong together


class Cue(NamedTuple):
    """A subtitle: its line in the file, start and end in milliseconds, and text."""

    line: int
    start: int
    end: int
    text: str

    def overlaps(self, other: Cue) -> bool:
        """Return whether at least half of the shorter cue is at the time of the other."""
        common = min(self.end, other.end) - max(self.start, other.start)
        return common > 0 and common >= _OVERLAP * min(self.end - self.start, other.end - other.start)


def read_cues(path: str) -> Iterator[Cue]:
    """Yield the cues of a file in order, without markup; lines are joined by spaces."""
    start: Cue | None = None
    texts: list[str] = []
    size, is_vtt = 0, False
    for number, line in enumerate(lines(path), 1):
        is_vtt = is_vtt or (number == 1 and line.startswith(WEBVTT))
        match = TIMING.match(line)
        if match or not line.strip():
            if start and texts:
                yield start._replace(text=" ".join(texts))
            start = None
        if match:
            found = [int(group or 0) for group in match.groups()]
            start, texts, size = Cue(number, _time(*found[:4]), _time(*found[4:]), ""), [], 0
        elif start and line.strip() and size < UNIT_BYTES:
            size += len(line)
            text = TAG.sub("", line)
            texts += (ENTITY.sub(lambda one: ENTITIES[one[0]], text) if is_vtt else text).split()
    if start and texts:
        yield start._replace(text=" ".join(texts))


def _time(hours: int, minutes: int, seconds: int, thousandths: int) -> int:
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + thousandths


def read_subtitles(source: str, target: str) -> Iterator[Unit]:
    """Yield a unit for each group of cues at the same time, in the order of the sources.

    A cue of one language that is at the time of several of the other one is paired with all of them.
    """
    left, right = read_cues(source), read_cues(target)
    ours, theirs = next(left, None), next(right, None)
    while ours and theirs:
        if not ours.overlaps(theirs):
            if ours.start + ours.end <= theirs.start + theirs.end:
                yield Unit(ours.line, ours.text, None, NO_OTHER)
                ours = next(left, None)
            else:
                yield Unit(theirs.line, theirs.text, None, f"target {NO_OTHER}")
                theirs = next(right, None)
            continue
        one, other = [ours], [theirs]
        ours, theirs = next(left, None), next(right, None)
        while len(one) + len(other) < _LARGEST_GROUP:
            if ours and any(ours.overlaps(cue) for cue in other):
                one.append(ours)
                ours = next(left, None)
            elif theirs and any(theirs.overlaps(cue) for cue in one):
                other.append(theirs)
                theirs = next(right, None)
            else:
                break
        yield Unit(one[0].line, " ".join(cue.text for cue in one), " ".join(cue.text for cue in other))
    while ours:
        yield Unit(ours.line, ours.text, None, NO_OTHER)
        ours = next(left, None)
    while theirs:
        yield Unit(theirs.line, theirs.text, None, f"target {NO_OTHER}")
        theirs = next(right, None)
