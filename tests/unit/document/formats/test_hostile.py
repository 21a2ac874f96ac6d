"""Files that are damaged or made to exhaust time and memory: a clear error, or a translation."""

from __future__ import annotations

import time
from random import Random

import pytest

from seqloom.document import DocumentOptions, translate_document
from seqloom.errors import SeqloomError
from support.document_translators import FunctionTranslator
from support.random_documents import DOCUMENTS

_BYTES = b"<>&;\"'\\{}[]()*_`#-\n\r\t\x00\xff\xfe\xc3 !?/="
_REPEATED = (
    "<a ",
    "<",
    "<!--",
    '<a "',
    "&",
    "<b>",
    "</b>",
    "[",
    "](",
    "*",
    "_a",
    "`",
    "> ",
    "{",
    '"',
    "\\",
    "\n",
)
_LONG = 20_000


def _check_damaged(format: str, seed: int, count: int) -> None:
    random, translator = Random(seed), FunctionTranslator()
    for _ in range(count):
        data = bytearray(DOCUMENTS[format](random).encode() or b"a")
        for _ in range(random.randrange(1, 6)):
            place = random.randrange(len(data))
            if random.random() < 0.5:
                data[place] = random.choice(_BYTES)
            else:
                data[place : place + random.randrange(9)] = random.choices(_BYTES, k=random.randrange(4))
            data = data or bytearray(b"a")
        try:
            result = translate_document(translator, bytes(data), DocumentOptions(format, overwrite=True))
        except SeqloomError:
            continue
        if format not in ("po", "xliff"):  # their targets may differ from the damaged sources
            assert result.to_bytes() == bytes(data)


@pytest.mark.parametrize("format", DOCUMENTS)
def test_damaged_documents(format: str) -> None:
    _check_damaged(format, seed=1, count=40)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("format", DOCUMENTS)
def test_1000_damaged_documents(format: str) -> None:
    _check_damaged(format, seed=2, count=1000)


@pytest.mark.parametrize("format", ["html", "subtitles", "json", "po", "xliff"])
def test_repeated_markup_takes_linear_time(format: str) -> None:
    started = time.process_time()
    for part in _REPEATED:
        try:
            DocumentOptions(format, split="none").parse((part * _LONG)[:_LONG].encode())
        except SeqloomError:
            continue
    assert time.process_time() - started < 5
