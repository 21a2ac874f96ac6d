"""Interface of document formats, and text files with their encodings."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from seqloom.data.lines import codec_of
from seqloom.document.segments import Block
from seqloom.document.size_checks import check_size
from seqloom.errors import SeqloomError
from seqloom.limits import DOCUMENT_TEXT_BYTES

_MARKS = (  # byte order marks, the longer ones first
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEAD = 4096  # bytes at the start of a file that may declare its encoding


class Format(Protocol):
    """Format of documents.

    A document is decoded to text, which is divided into strings that stay unchanged and blocks. The joined
    parts are the text. The encoder turns the translated text into the content of a file.
    """

    def decode(self, data: bytes, name: str) -> str:
        """Return the text of a document; `name` names it in error messages."""
        ...

    def encoder(self, data: bytes, name: str) -> Callable[[str], bytes]:
        """Return the function from the translated text to the content of a file."""
        ...

    def parse(self, text: str, name: str) -> Iterable[str | Block]:
        """Divide the text into strings that stay unchanged and blocks."""
        ...

    def languages(self, text: str) -> Languages:
        """Return the source and target language that the document names; None if it does not name one."""
        ...


Languages = tuple[str | None, str | None]


class TextFormat:
    """Format of text files. Subclasses implement `parse`, and `languages` if files name them."""

    declaration: re.Pattern[bytes] | None = None  # of the encoding, as the first group
    escapes = "strict"  # what the encoder does with characters that the encoding lacks
    convert = "convert the file to UTF-8"  # hint if a character cannot be written

    def decode(self, data: bytes, name: str) -> str:
        """Return the text, byte order mark included."""
        check_size(len(data), name, DOCUMENT_TEXT_BYTES)
        encoding = self._encoding(data, name)
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            raise SeqloomError(
                f"{name} is not valid {encoding.upper()}: byte {error.start:,} cannot be decoded.",
                "convert the file to UTF-8, e.g. with iconv",
            ) from error
        if text.encode(encoding) != data:  # several sequences of bytes can stand for one character
            raise SeqloomError(
                f"{name} has characters that are not in the usual form of {encoding.upper()}.",
                "convert the file to UTF-8, e.g. with iconv",
            )
        return text

    def encoder(self, data: bytes, name: str) -> Callable[[str], bytes]:
        """Return the encoder with the encoding of the original file."""
        encoding = self._encoding(data, name)

        def encode(text: str) -> bytes:
            try:
                return text.encode(encoding, self.escapes)
            except UnicodeEncodeError as error:
                raise SeqloomError(
                    f"The translation of {name} has characters that {encoding.upper()} does not have.",
                    self.convert,
                ) from error

        return encode

    def languages(self, text: str) -> Languages:
        """Return no languages."""
        return None, None

    def _encoding(self, data: bytes, name: str) -> str:
        for mark, encoding in _MARKS:
            if data.startswith(mark):
                return encoding
        declared = self.declaration.search(data[:_HEAD]) if self.declaration else None
        if declared is None:
            return "utf-8"
        encoding = declared[1].decode("ascii", "replace").lower()
        if not codec_of(encoding):  # also "utf-16" without a byte order mark
            raise SeqloomError(
                f"{name} declares an unknown encoding: {encoding!r}.", "convert the file to UTF-8"
            )
        return encoding


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their numbers and ends; only line feeds and returns end a line."""
    for number, match in enumerate(re.finditer(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", text), 1):
        yield number, match[0]


def without_end(line: str) -> str:
    """Return a line without its end."""
    return line.rstrip("\r\n")
