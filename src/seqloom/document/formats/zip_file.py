"""Documents in a ZIP file: the text of its XML parts is one text, in which NUL separates the parts."""

from __future__ import annotations

import io
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from seqloom.data.archives import ZIP_ERRORS
from seqloom.document.formats.base import Languages
from seqloom.document.safe_xml import parse_xml_bytes
from seqloom.document.size_checks import check_size
from seqloom.errors import SeqloomError
from seqloom.limits import DOCUMENT_BYTES, DOCUMENT_TEXT_BYTES

SEPARATOR = "\x00"  # no XML contains it
_MOST_FILES = 20_000


class ZippedXml(ABC):
    """Format of ZIP files with XML parts. Subclasses choose the parts and implement `parse`."""

    description: str  # of the files, for error messages

    @abstractmethod
    def is_part(self, name: str) -> bool:
        """Return whether a file of the ZIP file has text to translate."""

    def decode(self, data: bytes, name: str) -> str:
        """Return the text of all parts."""
        found = [content for _, content in self._parts(data, name)]
        if not found:
            raise SeqloomError(f"{name} is not {self.description}: it has no text.", "check the --format")
        return SEPARATOR.join(found)

    def encoder(self, data: bytes, name: str) -> Callable[[str], bytes]:
        """Return the function that replaces the parts of the file; all other files stay unchanged."""
        names = [part for part, _ in self._parts(data, name)]

        def encode(text: str) -> bytes:
            changed = dict(zip(names, text.split(SEPARATOR), strict=True))
            target = io.BytesIO()
            try:
                with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
                    for info in old.infolist():
                        is_changed = info.filename in changed
                        new.writestr(info, changed[info.filename].encode() if is_changed else old.read(info))
            except ZIP_ERRORS as error:
                raise self._damaged(name, error) from error
            return target.getvalue()

        return encode

    def languages(self, text: str) -> Languages:
        """Return no languages: a document may have text in several."""
        return None, None

    def _parts(self, data: bytes, name: str) -> Iterator[tuple[str, str]]:
        check_size(len(data), name, DOCUMENT_BYTES)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as file:
                self._check(file, name)
                for info in file.infolist():
                    if self.is_part(info.filename):
                        yield info.filename, _text(file, info, name)
        except ZIP_ERRORS as error:
            raise self._damaged(name, error) from error

    def _damaged(self, name: str, error: Exception) -> SeqloomError:
        reason = str(error) or type(error).__name__
        return SeqloomError(f"{name} is not {self.description}: {reason}.", "open and save it again")

    def _check(self, file: zipfile.ZipFile, name: str) -> None:
        infos = file.infolist()
        if len(infos) > _MOST_FILES or sum(info.file_size for info in infos) > DOCUMENT_BYTES:
            raise SeqloomError(
                f"{name} has more than {_MOST_FILES:,} files or {DOCUMENT_BYTES:,} decompressed bytes.",
                "it may be a ZIP bomb; divide a real document",
            )
        if len({info.filename for info in infos}) < len(infos):
            raise SeqloomError(f"{name} has two files with the same name.", "open and save it again")


def _text(file: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> str:
    check_size(info.file_size, f"{name}, {info.filename}", DOCUMENT_TEXT_BYTES)
    with file.open(info) as stream:
        content = stream.read(info.file_size + 1)  # the directory may claim too little
    if len(content) > info.file_size:
        raise ValueError("a file is larger than its directory says")
    parse_xml_bytes(content, f"{name}, {info.filename}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SeqloomError(f"{name}, {info.filename} is not UTF-8.", "open and save it again") from error
