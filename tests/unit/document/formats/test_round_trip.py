"""Documents of every format, translated by a model that copies, and by one that changes every word."""

from __future__ import annotations

from random import Random

import pytest

from seqloom.document import Document, DocumentOptions, LengthLimit, Split, translate_document
from seqloom.document.formats import FORMATS
from support.document_translators import FunctionTranslator
from support.random_documents import DOCUMENTS


def _check_copies(format: str, seed: int, count: int) -> None:
    random, translator, segments = Random(seed), FunctionTranslator(), 0
    for _ in range(count):
        data = DOCUMENTS[format](random).encode()
        split: Split = random.choice(["sentences", "lines", "none"])
        limit = LengthLimit(random.randrange(2, 9), lambda part: len(part.split()))
        options = DocumentOptions(
            format, split=split, limit=random.choice([None, limit]), overwrite=True, language="en"
        )
        assert options.parse(data).text.encode() == data
        result = translate_document(translator, data, options)
        assert result.to_bytes() == data
        segments += len(result.segments)
    assert segments > count / 2


def test_there_are_random_documents_of_every_format() -> None:
    assert {*DOCUMENTS, "docx", "odt"} == set(FORMATS)  # those in ZIP files: test_office.py


@pytest.mark.parametrize("format", DOCUMENTS)
def test_copied_documents_are_equal(format: str) -> None:
    _check_copies(format, seed=1, count=150)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("format", DOCUMENTS)
def test_many_copied_documents_are_equal(format: str) -> None:
    _check_copies(format, seed=2, count=1300)


@pytest.mark.parametrize("format", DOCUMENTS)
def test_the_structure_is_that_of_the_source_if_all_words_change(format: str) -> None:
    random = Random(3)
    translator = FunctionTranslator(lambda request: " ".join("xyz" for _ in request.source.split()))
    for _ in range(60):
        data = DOCUMENTS[format](random).encode()
        options = DocumentOptions(format, overwrite=True, placeholders=frozenset())
        before = options.parse(data)
        after = options.parse(translate_document(translator, data, options).to_bytes())

        assert len(_places(after)) == len(_places(before))
        if format != "po":  # an entry that needs a review has one line more
            assert _places(after) == _places(before)


def _places(document: Document) -> list[str]:
    return [piece.block.place for piece in document.pieces if not isinstance(piece, str)]


def test_the_encoding_is_kept() -> None:
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        data = "Hé.\r\nBó.".encode(encoding)
        assert translate_document(FunctionTranslator(), data).to_bytes() == data
    assert Document.parse("\ufeffOne.".encode()).segments[0].source == "One."
