"""Plain text: every line is a block."""

from __future__ import annotations

from collections.abc import Iterator

from seqloom.document.formats.base import TextFormat
from seqloom.document.segments import Block, text_atoms


class PlainText(TextFormat):
    """Plain text."""

    def parse(self, text: str, name: str) -> Iterator[str | Block]:
        """Yield a block for every line."""
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            yield Block(text_atoms(line), f"line {number}")


FORMAT = PlainText()
