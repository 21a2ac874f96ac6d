"""Text in figures: readable tokens, and the space that a text needs."""

from __future__ import annotations

from collections.abc import Sequence
from html import unescape

END = "</s>"
END_LABEL = "(end)"
START = "<s>"
START_LABEL = "(start)"
_SPECIAL = {START: START_LABEL, END: END_LABEL}
LONGEST_LABEL = 24  # characters
_LETTER = 0.6  # width of a terminal cell of text, as a share of the font size: most letters are narrower


def labels(tokens: Sequence[str]) -> list[str]:
    """Return readable tokens: SentencePiece's ▁ is removed if all tokens are words, otherwise shown as ·."""
    words = [token for token in tokens if token not in _SPECIAL]
    all_words = all(len(token) > 1 and token.startswith("▁") for token in words)
    return [_SPECIAL.get(token) or _label(token.removeprefix("▁") if all_words else token) for token in tokens]


def _label(token: str) -> str:
    return shortened("␣" if token == "▁" else readable(token).replace("▁", "·"))


def readable(text: str) -> str:
    """Return the text without HTML entities, end-of-sentence symbols and control characters."""
    shown = unescape(text).replace(END, END_LABEL)
    return "".join(char if char.isprintable() else "�" for char in shown)


def shortened(text: str, most: int = LONGEST_LABEL) -> str:
    """Return the text truncated to a number of characters, with an ellipsis if it was longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def literal(text: str) -> str:
    r"""Return text escaped for matplotlib, so that no part is read as a formula: $ becomes \$."""
    return text.replace("$", r"\$")


def text_width(text: str, size: float) -> float:
    """Estimate the width of the longest line of a text in inches; the font size is in points."""
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n"))) * _LETTER * size / 72


def words_of(tokens: Sequence[str]) -> list[int]:
    """Return the word index of each token, from 0; a word begins with ▁."""
    numbers: list[int] = []
    for token in tokens:
        begins = token.startswith("▁") or token in _SPECIAL or tokens[len(numbers) - 1] == START
        numbers.append((numbers[-1] + begins) if numbers else 0)
    return numbers


def joined_words(tokens: Sequence[str]) -> list[str] | None:
    """Return the words that the tokens form, or None if grouping by word would not help."""
    words: list[str] = []
    for token, number in zip(tokens, words_of(tokens), strict=True):
        if number == len(words):
            words.append(token)
        else:
            words[-1] += token
    if len(words) == len(tokens) or max(map(len, words)) > LONGEST_LABEL:
        return None  # already words, or a script without spaces
    return words
