"""Text in a script that is unusual for its side of the corpus, e.g. Cyrillic in an English column."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from seqloom.cleaning.rule import SIDES, LineRule, Pair, Violation

_USUAL = 0.1  # share of the letters of a side that makes a script usual
_JAPANESE = {"Hiragana", "Katakana"}
_STYLES = {"FULLWIDTH", "HALFWIDTH", "MATHEMATICAL", "CIRCLED", "PARENTHESIZED", "SQUARED"}
_NO_SCRIPT = {"MICRO", "FEMININE", "MASCULINE", "MODIFIER", "DOUBLE-STRUCK", "SCRIPT", "BLACK-LETTER"}


@lru_cache(maxsize=100_000)
def script_of(character: str) -> str:
    """Return the script of a letter, e.g. `Latin`; an empty string for other characters."""
    if not character.isalpha():
        return ""
    words = [word for word in unicodedata.name(character, "").split() if word not in _STYLES]
    if not words or words[0] in _NO_SCRIPT:
        return ""
    return "Han" if words[0] in ("CJK", "IDEOGRAPHIC") else words[0].capitalize()


def scripts(text: str) -> Counter[str]:
    """Return the number of letters of every script."""
    if text.isascii():
        return Counter({"Latin": sum(map(str.isalpha, text))})
    return Counter(filter(None, map(script_of, text)))


class Script(LineRule):
    """Rule against texts with few letters of the scripts that are usual on their side."""

    def __init__(self, sample: Sequence[Pair], least: float) -> None:
        super().__init__()
        self.least = least
        self.usual = [_usual(pair[side] for pair in sample) for side in (0, 1)]

    @property
    def limit(self) -> str:
        named = [
            f"{side} {' or '.join(sorted(usual)) or 'any'}"
            for side, usual in zip(SIDES, self.usual, strict=True)
        ]
        return f"at least {self.least:.0%} of the letters: {', '.join(named)}"

    def check(self, pair: Pair) -> Violation | None:
        for side, text, usual in zip(SIDES, pair, self.usual, strict=True):
            found = scripts(text)
            letters = found.total()
            if not letters or not usual:
                continue
            share = sum(found[script] for script in usual) / letters
            if share < self.least:
                return Violation(f"{side} is {found.most_common(1)[0][0]}", share)
        return None


def _usual(texts: Iterable[str]) -> set[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(scripts(text))
    usual = {script for script, count in counts.items() if count >= _USUAL * counts.total() > 0}
    return usual | _JAPANESE | {"Han"} if usual & _JAPANESE else usual
