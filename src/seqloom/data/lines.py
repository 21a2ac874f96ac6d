"""Lines of a file: strict UTF-8, gzip detected by content, `-` for standard input."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from seqloom.errors import SeqloomError
from seqloom.limits import LINE_BYTES

_CODECS = re.compile(r"utf-8|ascii|(?:iso8859|cp|koi8|mac|tis|gb|big5|euc|shift_jis|johab|iso2022)[\w-]*")


def lines(path: str) -> Iterator[str]:
    """Yield the lines of a text file without line ends, which are LF or CR LF."""
    for line in raw_lines(path):
        yield line.removesuffix("\n").removesuffix("\r")


def raw_lines(path: str) -> Iterator[str]:
    number = 0
    try:
        with opened(path) as stream:
            for number, raw in enumerate(iter(partial(stream.readline, LINE_BYTES + 1), b""), 1):
                if len(raw) > LINE_BYTES:
                    raise SeqloomError(
                        f"{display_name(path)}, line {number} has more than {LINE_BYTES:,} bytes.",
                        "split it into shorter lines",
                    )
                text = raw.decode()
                yield text.removeprefix("\ufeff") if number == 1 else text  # byte order mark
    except UnicodeDecodeError as error:
        raise SeqloomError(
            f"{display_name(path)}, line {number}: byte {error.start + 1} (0x{error.object[error.start]:02x}) "
            "is not valid UTF-8.",
            "convert the file, e.g. with iconv -f latin1 -t utf-8 (or -f utf-16)",
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SeqloomError(
            f"{display_name(path)} is a damaged or incomplete gzip file: it ends after line {number}.",
            "download or compress the file again",
        ) from error


def codec_of(charset: str) -> str:
    """Return the codec of a charset that a file declares; empty unless it is one of human text.

    Python has others, such as base64 and unicode_escape, in which bytes and text are not in correspondence.
    """
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return ""
    return name if _CODECS.fullmatch(name) else ""


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Open a file or standard input as bytes, decompressed if the first two bytes are those of gzip."""
    if path == "-":
        yield _decompressed(sys.stdin.buffer)
        return
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 (closed below; this try covers only opening)
    except OSError as error:
        raise cannot_read(path, error) from error
    with stream:
        yield _decompressed(stream)


def _decompressed(stream: IO[bytes]) -> IO[bytes]:
    peekable = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(Any, stream))
    compressed = peekable.peek(2)[:2] == b"\x1f\x8b"
    return cast(IO[bytes], gzip.GzipFile(fileobj=peekable) if compressed else peekable)


def cannot_read(path: str, error: OSError) -> SeqloomError:
    if isinstance(error, FileNotFoundError):
        return SeqloomError(f"The file {path} does not exist.", "check the path")
    if isinstance(error, IsADirectoryError):
        return SeqloomError(f"{path} is a folder, not a file.", "give the path of a file")
    return SeqloomError(f"Cannot read {path}: {error.strerror or error}.", "check the file and its permissions")


def display_name(path: str) -> str:
    return "standard input" if path == "-" else path
