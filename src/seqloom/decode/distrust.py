"""What a person should not trust in an answer, found without a reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from seqloom.types import Hypothesis

Flag = Literal["empty", "cut", "loop", "copy"]
MEANING: dict[Flag, str] = {
    "empty": "nothing was said, though the source says something",
    "cut": "the maximum length was reached before the end",
    "loop": "the same words follow one another again and again",
    "copy": "the answer is the source",
}

_TIMES = 4  # a stretch that follows itself so often is a loop
_LONGEST = 8  # words of a stretch that are looked for


def flags(source: str, answer: Hypothesis) -> list[Flag]:
    """Why this answer to this source is suspicious; mostly nothing."""
    found: list[Flag] = []
    if not answer.text.strip() and source.strip():
        found.append("empty")
    if not answer.finished:
        found.append("cut")
    if loops(answer.text.split()):
        found.append("loop")
    if is_copy(source, answer.text):
        found.append("copy")
    return found


def loops(words: Sequence[str]) -> bool:
    """Whether a stretch of up to eight words stands four times in a row.

    With period n, word i equals word i + n; a run of so many equal pairs is that stretch repeated.
    """
    for period in range(1, min(_LONGEST, len(words) // _TIMES) + 1):
        run = 0
        for one, other in zip(words, words[period:], strict=False):
            run = run + 1 if one == other else 0
            if run == (_TIMES - 1) * period:
                return True
    return False


def is_copy(source: str, answer: str) -> bool:
    """Whether three or more words came out as they went in; names and numbers alone may well."""
    words = source.split()
    return len(words) >= 3 and words == answer.split()
