"""Hostile documents: a clear error or a right result in little time and memory, and nothing else is read."""

from __future__ import annotations

import io
import os
import socket
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from seqloom.document import DocumentOptions, Glossary, LengthLimit, TranslationMemory, translate_document
from seqloom.document.formats import FORMATS
from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair
from support.document_translators import FunctionTranslator, WordTranslator
from support.hostile_documents import XML, Attack, Outside, attacks, mutated

_SECRET = "s3cr3t of another file"
_SECONDS = 20  # processor time of a file
_SMALL, _LARGE = 1_500, 100_000  # bytes of repeated parts
_FEW, _MANY = 6, 950  # mutations per format; with the attacks, there are 1,000 files
_LIMIT = LengthLimit(100, lambda text: len(text.split()))
_BILINGUAL = ("po", "xliff")  # their targets change
_UNITS = ("tmx", "ts", "tbx")  # formats of memories and glossaries
_SLOW = [pytest.mark.slow, pytest.mark.timeout(3600)]


@dataclass
class _Guard:
    """Recorder of what this process opens, executes and calls while it is on."""

    is_on: bool = False
    found: list[str] = field(default_factory=list)
    allowed: tuple[str, ...] = ()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event == "open" and isinstance(arguments[0], str):
            if not os.path.abspath(arguments[0]).startswith(self.allowed):
                self.found.append(f"open {arguments[0]}")
        elif event in (
            "os.system",
            "os.exec",
            "os.posix_spawn",
            "subprocess.Popen",
            "os.fork",
            "socket.connect",
        ):
            self.found.append(event)


_GUARD = _Guard()


@pytest.fixture
def outside(tmp_path: Path, little_memory: None) -> Iterator[Outside]:
    """Yield a secret file, an address and a file to create; at the end none of them has been used."""
    if not _GUARD.allowed:
        _GUARD.allowed = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), str(tmp_path.parent))
        sys.addaudithook(_GUARD)  # cannot be removed; it is off after each test
    secret, created = tmp_path / "secret.txt", tmp_path / "created.txt"
    secret.write_text(_SECRET)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        _GUARD.found.clear()
        _GUARD.is_on = True
        try:
            yield Outside(str(secret), f"http://127.0.0.1:{server.getsockname()[1]}/a.dtd", str(created))
        finally:
            _GUARD.is_on = False
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not _GUARD.found
    assert not created.exists()


def _check(name: str, act: Callable[[], bytes | None]) -> bytes | None:
    """Return the result of an action; None if it raises an error for users, which must be clear."""
    began = time.process_time()
    try:
        result = act()
        message = ""
    except SeqloomError as error:
        result, message = None, str(error)
    assert time.process_time() - began < _SECONDS, name
    assert _SECRET not in message and len(message) < 2000, name
    assert _SECRET.encode() not in (result or b""), name
    return result


def _check_document(format: str, name: str, data: bytes) -> None:
    """Check a copy of a document, and that a translation with other words can be read again."""
    options = DocumentOptions(format, overwrite=True, language="en")
    copied = _check(name, lambda: translate_document(FunctionTranslator(), data, options).to_bytes())
    if copied is None:
        return
    if format in _BILINGUAL:
        sources = [[one.source for one in options.parse(each).segments] for each in (data, copied)]
        assert sources[0] == sources[1], name
    else:
        assert _content(copied) == _content(data), name
    options = replace(options, limit=_LIMIT)  # the alignment of the translator is quadratic
    changed = translate_document(WordTranslator(str.swapcase), data, options)
    options.parse(changed.to_bytes())


def _content(data: bytes) -> object:
    """Return the files in a ZIP file, and other data as it is."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def _check_units(format: str, data: bytes, folder: Path) -> None:
    """Check that a memory or a glossary can be read, or has a clear error."""
    path, languages = folder / f"a.{format}", LanguagePair("en", "de")
    path.write_bytes(data)

    def read() -> bytes:
        if format == "tbx":
            return repr(Glossary.read(str(path), languages).terms).encode(errors="replace")
        memory = TranslationMemory.read(str(path), languages)
        return repr(memory._targets).encode(errors="replace")

    _check(format, read)


@pytest.mark.parametrize("size", [_SMALL, pytest.param(_LARGE, marks=_SLOW)])
@pytest.mark.parametrize("format", FORMATS)
def test_attacks_on_documents(format: str, size: int, outside: Outside) -> None:
    cases: list[Attack] = list(attacks(format, outside, size))
    assert len(cases) > 25
    for name, data in cases:
        _check_document(format, name, data)


@pytest.mark.parametrize("count", [_FEW, pytest.param(_MANY, marks=_SLOW)])
@pytest.mark.parametrize("format", FORMATS)
def test_mutated_documents(format: str, count: int, outside: Outside) -> None:
    random = Random(f"{format} {count}")
    for number in range(count):
        _check_document(format, f"mutation {number}", mutated(format, random))


@pytest.mark.parametrize("size", [_SMALL, pytest.param(_LARGE, marks=_SLOW)])
@pytest.mark.parametrize("format", _UNITS)
def test_attacks_on_memories_and_glossaries(format: str, size: int, outside: Outside, tmp_path: Path) -> None:
    assert format in XML
    for _, data in attacks(format, outside, size):
        _check_units(format, data, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("format", [one for one in FORMATS if one not in ("docx", "odt")])
@pytest.mark.parametrize("part", ["<b>", "<x/>", "{", "a ", "\n"])
def test_a_file_of_100_megabytes(format: str, part: str, outside: Outside) -> None:
    data = (part * (100_000_000 // len(part))).encode()
    assert (
        _check(part, lambda: translate_document(FunctionTranslator(), data, DocumentOptions(format)).to_bytes())
        is None
    )


@pytest.mark.slow
@pytest.mark.parametrize("format", ["docx", "odt", "xliff", "tmx", "ts", "tbx"])
def test_one_tag_of_100_megabytes(format: str, outside: Outside, tmp_path: Path) -> None:
    for text in ("<x/>" * 25_000_000, f"<{'x' * 100_000_000}/>"):
        data = XML[format].file(text)
        if format in FORMATS:
            assert _check(format, lambda data=data: DocumentOptions(format).parse(data).text.encode()) is None
        else:
            _check_units(format, data, tmp_path)
