"""The lines of a file: strict UTF-8, gzip by content, `-` for standard input."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from seqloom.errors import SeqloomError
from seqloom.limits import LINE_BYTES


def lines(path: str) -> Iterator[str]:
    """The lines of a text file without their ends. Only a line feed ends a line, perhaps after a return."""
    for line in raw_lines(path):
        yield line.removesuffix("\n").removesuffix("\r")


def raw_lines(path: str) -> Iterator[str]:
    number = 0
    try:
        with opened(path) as stream:
            for number, raw in enumerate(iter(partial(stream.readline, LINE_BYTES + 1), b""), 1):
                if len(raw) > LINE_BYTES:
                    raise SeqloomError(
                        f"{shown(path)}, line {number} has more than {LINE_BYTES:,} bytes.", "cut it into lines"
                    )
                text = raw.decode()
                yield text.removeprefix("\ufeff") if number == 1 else text  # a byte order mark is no text
    except UnicodeDecodeError as error:
        raise SeqloomError(
            f"{shown(path)}, line {number}: byte {error.start + 1} (0x{error.object[error.start]:02x}) is not "
            "valid UTF-8.",
            "convert the file, e.g. iconv -f latin1 -t utf-8 (or -f utf-16)",
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SeqloomError(
            f"{shown(path)} is a damaged or incomplete gz file: it breaks off after line {number}.",
            "fetch or compress the file again",
        ) from error


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a file or of standard input, unpacked when they are gzip (told by its first two bytes)."""
    if path == "-":
        yield _unpacked(sys.stdin.buffer)
        return
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 (closed below; here only opening may fail)
    except OSError as error:
        raise cannot_read(path, error) from error
    with stream:
        yield _unpacked(stream)


def _unpacked(stream: IO[bytes]) -> IO[bytes]:
    peekable = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(Any, stream))
    packed = peekable.peek(2)[:2] == b"\x1f\x8b"
    return cast(IO[bytes], gzip.GzipFile(fileobj=peekable) if packed else peekable)


def cannot_read(path: str, error: OSError) -> SeqloomError:
    if isinstance(error, FileNotFoundError):
        return SeqloomError(f"There is no file {path}.", "check the path")
    if isinstance(error, IsADirectoryError):
        return SeqloomError(f"{path} is a folder, not a file.", "name the file in it")
    return SeqloomError(
        f"{path} cannot be read: {error.strerror or error}.", "check the file and its permissions"
    )


def shown(path: str) -> str:
    return "standard input" if path == "-" else path
