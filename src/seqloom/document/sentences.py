"""Boundaries of lines, sentences and parts of long sentences, as character positions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from seqloom.errors import SeqloomError

Split = Literal["sentences", "lines", "none"]

_INVISIBLE = "\ufeff\u200b\u2060"  # byte order mark, zero width space, word joiner
_EMOJI = re.compile(r".\ufe0f\u20e3?|[0-9#*]\u20e3")  # letters and digits that are displayed as emoji
_CHUNK = 1 << 14  # characters of a line that are split together: the time of sentencex may be quadratic
# Places to split a long sentence, best first: after a sentence or clause, after a comma, at white space.
_PLACES = (re.compile(r"[.!?;:…。！？；：]+\s*"), re.compile(r"[,)،、，]+\s*"), re.compile(r"\s+"))
_JOINERS = "\u200d\ufe0e\ufe0f"


class LengthLimit(NamedTuple):
    """Maximum length of a segment, in tokens of the model."""

    longest: int
    tokens: Callable[[str], int]  # number of tokens of a text


class Span(NamedTuple):
    """Text to translate, without white space around it."""

    start: int
    end: int
    is_part: bool = False  # whether it is a part of a sentence that is too long


def spans(
    text: str, *, split: Split, language: str, limit: LengthLimit | None, kept: Sequence[tuple[int, int]] = ()
) -> Iterator[Span]:
    """Yield the spans of a text that are translated one by one; the rest has no letters and digits.

    A sentence never ends inside one of the `kept` spans; a long sentence is split there only if it has to be.
    """
    for start, end in _joined_inside(_sentences(text, split, language), kept):
        start, end = _stripped(text, start, end)
        if not has_words(text[start:end]):
            continue
        if limit is None:
            yield Span(start, end)
            continue
        places = list(_parts(text, start, end, limit.longest, limit.tokens))
        for part in places:
            first, last = _stripped(text, *part)
            if first < last:
                yield Span(first, last, len(places) > 1)


def _joined_inside(
    sentences: Iterable[tuple[int, int]], kept: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the sentences; one that ends inside a kept span is joined with the next one."""
    inside = {place for start, end in kept for place in range(start + 1, end)}
    begun: int | None = None
    last = 0
    for start, end in sentences:
        first, last = (start if begun is None else begun), end
        begun = first if end in inside else None
        if begun is None:
            yield first, end
    if begun is not None:
        yield begun, last


def has_words(text: str) -> bool:
    """Return whether the text has a letter or digit that is not part of an emoji."""
    return any(map(str.isalnum, text)) and any(map(str.isalnum, _EMOJI.sub("", text)))


def _sentences(text: str, split: Split, language: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of every sentence or line, including the white space after it."""
    if split == "none":
        yield 0, len(text)
        return
    start = 0
    for line in text.splitlines(keepends=True):
        end = start + len(line)
        if split == "lines":
            yield start, end
        else:
            for first, last in _cells(text, start, end):
                for chunk in _parts(text, first, last, _CHUNK, len):
                    yield from _sentences_of_chunk(text, *chunk, language)
        start = end


def _cells(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the cells of a line, which end with a tab."""
    while start < end:
        tab = text.find("\t", start, end)
        stop = end if tab < 0 else tab + 1
        yield start, stop
        start = stop


def _sentences_of_chunk(text: str, start: int, end: int, language: str) -> Iterator[tuple[int, int]]:
    split_sentences = load_splitter()
    for sentence in split_sentences(language or "en", text[start:end]):
        yield start, start + len(sentence)
        start += len(sentence)
    assert start == end, "the sentences of a text are the text"


def load_splitter() -> Callable[[str, str], list[str]]:
    """Return the sentence splitter; raise an error that names the extra if it is not installed."""
    try:
        from sentencex import segment
    except ImportError as error:
        raise SeqloomError(
            "Splitting text into sentences needs the library sentencex, which is not installed.",
            "pip install 'seqloom[documents]', or split by lines",
        ) from error
    split_sentences: Callable[[str, str], list[str]] = segment
    return split_sentences


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without white space and invisible characters at its ends."""
    while start < end and _is_space(text[start]):
        start += 1
    while start < end and _is_space(text[end - 1]):
        end -= 1
    return start, end


def _is_space(character: str) -> bool:
    return character.isspace() or character in _INVISIBLE


def _parts(
    text: str, start: int, end: int, longest: int, tokens: Callable[[str], int]
) -> Iterator[tuple[int, int]]:
    """Yield consecutive parts of at most `longest` tokens, split at the best places."""
    while start < end:
        fits = _longest_that_fits(text, start, end, longest, tokens)
        stop = fits if fits == end else _best_place(text, start, fits)
        yield start, stop
        start = stop


def _longest_that_fits(text: str, start: int, end: int, longest: int, tokens: Callable[[str], int]) -> int:
    """Return the last position up to which the text has at most `longest` tokens, at least one character."""
    good, step = start + 1, longest
    while True:  # double the length: a text of any length is measured only near the limit
        probe = min(end, start + step)
        if tokens(text[start:probe]) > longest:
            break
        good = probe
        if probe == end:
            return end
        step *= 2
    bad = probe
    while bad - good > 1:
        middle = (good + bad) // 2
        if tokens(text[start:middle]) <= longest:
            good = middle
        else:
            bad = middle
    return good


def _best_place(text: str, start: int, end: int) -> int:
    """Return the last of the best places to split in the second half of the text; `end` if there is none."""
    half = (start + end + 1) // 2
    for pattern in _PLACES:
        if found := [match.end() for match in pattern.finditer(text, half, end) if match.end() > start]:
            return found[-1]
    place = end
    while place > half and _joined(text, place):
        place -= 1
    return place if place > start else end


def _joined(text: str, place: int) -> bool:
    """Return whether the characters before and after this position form one visible character."""
    if place >= len(text):
        return False
    after = text[place]
    return after in _JOINERS or text[place - 1] == "\u200d" or unicodedata.category(after).startswith("M")
