"""What happens to a line before it is cut into pieces; the only step that may change a text."""

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
    """Raise if this is not a text, or has half a surrogate pair, which UTF-8 cannot encode."""
    if not isinstance(text, str):
        raise SeqloomError(f"{quoted(text)} is not text but {type(text).__name__}.", "give a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SeqloomError(
            f"Character {error.start + 1} of the text {quoted(text)} is half a surrogate pair "
            f"(U+{ord(text[error.start]):04X}), which is not valid Unicode.",
            "decode the bytes it comes from as UTF-8, or replace it: text.encode(errors='replace').decode()",
        ) from error


def check_texts(texts: Iterable[str]) -> None:
    """Raise unless these are several texts; one string would be taken for a list of its characters."""
    if isinstance(texts, str):
        raise SeqloomError(f"A list of texts is needed, got one string: {quoted(texts)}.", "put it into a list")
    for text in texts:
        check_unicode(text)


class Normalizer(Settings):
    """Unicode form, letter case and spaces of a text. Tags stay as they are written."""

    normalize: Normalization
    lowercase: bool
    collapse_spaces: bool
    tags: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Return the normalised text."""
        check_unicode(text)
        if self._tag_pattern:
            parts = self._tag_pattern.split(text)  # the odd ones are tags
            text = "".join(part if i % 2 else self._change(part) for i, part in enumerate(parts))
        else:
            text = self._change(text)
        # Last, because a compatibility form may bring in new spaces.
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
