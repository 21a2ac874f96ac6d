"""Reasons not to trust an output, found without a reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from seqloom.types import Hypothesis

Flag = Literal["impossible", "empty", "cut", "short", "loop", "copy", "unproven"]
MEANING: dict[Flag, str] = {
    "impossible": "no output satisfies the model and the search options",
    "empty": "the output is empty, the source is not",
    "cut": "the maximum length was reached before the end",
    "short": "the output is far shorter than the training data suggests",
    "loop": "the output repeats the same words over and over",
    "copy": "the output equals the source",
    "unproven": "the exact search ended before it excluded a better output",
}

_TIMES = 4  # consecutive repetitions that make a loop
_LONGEST = 8  # maximum number of words that are repeated
_LONG_SOURCE = 100  # characters; below this, a short output may be a correct one
_SHORT = 0.05  # fraction of the expected length
_LEAST_RATIO = 0.1  # below this, outputs are labels or summaries, whose length does not depend on the source


def flags(source: str, output: Hypothesis, length_ratio: float | None = None) -> list[Flag]:
    """Return the reasons why this output for this source is suspicious, usually none.

    `length_ratio` is the number of target characters per source character in the training data, if known.
    """
    if "impossible" in output.flags:
        return ["impossible"]
    found: list[Flag] = []
    if not output.text.strip() and source.strip():
        found.append("empty")
    if not output.finished:
        found.append("cut")
    if length_ratio is not None and is_short(source, output.text, length_ratio):
        found.append("short")
    if loops(output.text.split()):
        found.append("loop")
    if is_copy(source, output.text):
        found.append("copy")
    return found


def loops(words: Sequence[str]) -> bool:
    """Return whether a sequence of up to eight words occurs four times in a row.

    With period n, word i equals word i + n; a run of 3n equal pairs is four repetitions.
    """
    for period in range(1, min(_LONGEST, len(words) // _TIMES) + 1):
        run = 0
        for word, later in zip(words, words[period:], strict=False):
            run = run + 1 if word == later else 0
            if run == (_TIMES - 1) * period:
                return True
    return False


def is_short(source: str, output: str, length_ratio: float) -> bool:
    """Return whether a long source has an output shorter than a twentieth of the expected length.

    Number of short references in parallel corpora, with the length ratio of each, in both directions:
    0 of 9,661 with a source of 100 characters or more in Multi30k (English, German, French), 0 of 2,223 in
    Tatoeba, 1 of 39,943 in the Bible, 15 of 122,058 in dialogues, 19 of 5,499 lines of code.
    """
    if len(source) < _LONG_SOURCE or length_ratio < _LEAST_RATIO:
        return False
    return 0 < len(output.strip()) < _SHORT * length_ratio * len(source)  # an empty output has its own flag


def is_copy(source: str, output: str) -> bool:
    """Return whether three or more words were copied unchanged; one or two may be a name or a number."""
    words = source.split()
    return len(words) >= 3 and words == output.split()
