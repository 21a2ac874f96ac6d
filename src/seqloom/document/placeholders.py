"""Placeholders: parts of a text that a translation contains unchanged, such as `{name}`, `%1$s` and URLs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from seqloom.document.sentences import has_words
from seqloom.errors import require_known

Kind = Literal["code", "icu", "url", "email", "tag", "braces", "printf", "number", "capitals"]
ALWAYS: tuple[Kind, ...] = ("code", "icu", "url", "email", "tag", "braces", "printf")

_ICU_START = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal|number|date|time)\b")
_CONVERSION = r"[-+#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcsrSC@]"
# In this order: an earlier kind wins where two begin at the same place.
_PATTERNS: dict[Kind, str] = {
    "code": r"(?<!`)(?P<fence>`{1,9}+)(?!`).+?(?<!`)(?P=fence)(?!`)",
    "icu": _ICU_START.pattern,  # its end depends on nested braces
    "url": r"\b(?:https?|ftp|file|ssh|git)://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}*_]|\bwww\.[\w-]+\.[^\s<>\"'`]*[\w/]",
    "email": r"(?:\bmailto:)?(?<![\w.+-])\b[\w.+-]++@[\w-]+(?:\.[\w-]+)+\b",
    "tag": r"</?[A-Za-z][\w:.-]*(?:\s+[\w:.-]+(?:\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=]+))?)*\s*/?>"
    r"|&(?:[A-Za-z]\w*|\#\d+|\#x[\dA-Fa-f]+);",
    "braces": r"\{\{[^{}\n]*\}\}|\{%[^{}\n]*%\}|[$\#%]?\{[^{}\s,]*\}",
    # Neither "50% of" nor "100 %in": a conversion after a number needs brackets or a position.
    "printf": rf"%\([^()\s]+\){_CONVERSION}|%\d+\${_CONVERSION}|%%|(?<!\d)(?<!\d )%{_CONVERSION}|%[1-9]\b",
    "number": r"(?<![\w.,])[+-]?\d+(?:[.,:/]\d+)*(?![\w])",
    "capitals": r"(?<!\w)(?=(?:\d*[^\W\d_]){2})[^\W_]+(?!\w)",
}


class Placeholder(NamedTuple):
    """Part of a text that must not change."""

    text: str
    start: int
    kind: Kind

    @property
    def end(self) -> int:
        """End of the placeholder in the text."""
        return self.start + len(self.text)


class PlaceholderFinder:
    """Finder of placeholders of the given kinds; numbers and words in capitals only if asked for."""

    def __init__(self, kinds: Collection[Kind] = ALWAYS) -> None:
        for kind in kinds:
            require_known("kind of placeholder", kind, get_args(Kind))
        chosen = [(kind, pattern) for kind, pattern in _PATTERNS.items() if kind in kinds]
        self._pattern = (
            re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in chosen)) if chosen else None
        )

    def find(self, text: str) -> list[Placeholder]:
        """Return the placeholders of a text in order; they do not overlap."""
        return list(self._find(text))

    def _find(self, text: str) -> Iterator[Placeholder]:
        if self._pattern is None:
            return
        position = 0
        closing: dict[int, int] | None = None
        while match := self._pattern.search(text, position):
            kind, end = _kind(match), match.end()
            if kind == "icu":
                closing = _closing_braces(text) if closing is None else closing
                end = closing.get(match.start(), match.start())
            if (kind == "capitals" and not match[0].isupper()) or end == match.start():
                position = match.end()
                continue
            yield Placeholder(text[match.start() : end], match.start(), kind)
            position = end

    def count(self, text: str) -> Counter[str]:
        """Return how often each placeholder occurs in a text."""
        return Counter(found.text for found in self.find(text))

    def only(self, text: str) -> bool:
        """Return whether a text has no words beside its placeholders, so that nothing can be translated."""
        found = self.find(text)
        return bool(found) and not has_words(without(text, found))


def without(text: str, found: Sequence[Placeholder]) -> str:
    """Return the text with each placeholder replaced by a space."""
    ends = [0, *(one.end for one in found)]
    starts = [*(one.start for one in found), len(text)]
    return " ".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _kind(match: re.Match[str]) -> Kind:
    kinds: tuple[Kind, ...] = get_args(Kind)
    return next(kind for kind in kinds if kind in match.re.groupindex and match[kind] is not None)


def _closing_braces(text: str) -> dict[int, int]:
    """Return the end of each pair of balanced braces on one line, by its start."""
    found, opened = dict[int, int](), list[int]()
    for match in re.finditer(r"[{}\n]", text):
        if match[0] == "{":
            opened.append(match.start())
        elif match[0] == "\n":
            opened.clear()
        elif opened:
            found[opened.pop()] = match.end()
    return found
