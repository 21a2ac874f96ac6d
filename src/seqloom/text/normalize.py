"""Text normalisation before tokenisation; the only step that may change a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property
from typing import Literal

from seqloom.errors import SeqloomError, quoted
from seqloom.settings import Settings
from seqloom.text.config import Normalization

_FORMS: dict[Normalization, Literal["NFC", "NFKC"] | None] = {"none": None, "nfc": "NFC", "nfkc": "NFKC"}


def check_unicode(text: str) -> None:
    """Raise if this is not a string, or has an unpaired surrogate, which UTF-8 cannot encode."""
    if not isinstance(text, str):
        raise SeqloomError(f"Expected a string, got {type(text).__name__}: {quoted(text)}.", "pass a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SeqloomError(
            f"Character {error.start + 1} of the text {quoted(text)} is an unpaired surrogate "
            f"(U+{ord(text[error.start]):04X}), which is not valid Unicode.",
            "decode the original bytes as UTF-8, or replace it: text.encode(errors='replace').decode()",
        ) from error


def check_texts(texts: Iterable[str]) -> None:
    """Raise if this is one string, which would be read as a list of characters, or an item is not a string."""
    if isinstance(texts, str):
        raise SeqloomError(f"Expected a list of texts, got one string: {quoted(texts)}.", "put it into a list")
    for text in texts:
        check_unicode(text)


class Normalizer(Settings):
    """Normaliser of Unicode form, letter case and spaces. Tags stay unchanged."""

    normalize: Normalization
    lowercase: bool
    collapse_spaces: bool
    tags: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Return the normalised text."""
        check_unicode(text)
        if self._tag_pattern:
            parts = self._tag_pattern.split(text)  # odd indices are tags
            text = "".join(part if i % 2 else self._change(part) for i, part in enumerate(parts))
        else:
            text = self._change(text)
        # Last, because a compatibility form may add spaces.
        return " ".join(text.split()) if self.collapse_spaces else text

    def _change(self, text: str) -> str:
        if self.lowercase:
            text = text.lower()
        form = _FORMS[self.normalize]
        return unicodedata.normalize(form, text) if form else text

    @cached_property
    def _tag_pattern(self) -> re.Pattern[str] | None:
        if not self.tags:
            return None
        return re.compile(rf"(?<!\S)({'|'.join(map(re.escape, self.tags))})(?!\S)")
