"""Limits on the size of documents."""

from __future__ import annotations

import pytest

from seqloom.document import DocumentOptions
from seqloom.errors import SeqloomError
from support.hostile_documents import XML, packed

_LIMITS = {
    "formats.base.DOCUMENT_TEXT_BYTES": ("text", b"a" * 101, "100 bytes"),
    "formats.zip_file.DOCUMENT_BYTES": ("docx", packed({"word/document.xml": b"<a/>" * 30}), "100 bytes"),
    "formats.zip_file.DOCUMENT_TEXT_BYTES": ("odt", XML["odt"].file("a" * 101), "100 bytes"),
    "size_checks.DOCUMENT_TAGS": ("html", b"<b>" * 101, "100 tags"),
    "size_checks.DOCUMENT_SEGMENTS": ("text", b"a\n" * 101, "100 segments"),
}


@pytest.mark.parametrize("limit", _LIMITS)
def test_a_document_that_is_too_large_has_a_clear_error(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    format, data, message = _LIMITS[limit]
    options = DocumentOptions(format, split="none")
    monkeypatch.setattr(f"seqloom.document.{limit}", 100)
    with pytest.raises(SeqloomError, match=message) as error:
        options.parse(data, "a.file")
    assert "a.file" in error.value.message
    assert "smaller files" in error.value.hint or "ZIP bomb" in error.value.hint


def test_xml_with_many_tags_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.document.size_checks.DOCUMENT_TAGS", 100)
    monkeypatch.setattr("seqloom.document.safe_xml.load_lxml", None)
    for format in ("xliff", "docx", "odt"):
        with pytest.raises(SeqloomError, match="100 tags"):
            DocumentOptions(format).parse(XML[format].file("<x/>" * 100), "a.file")


@pytest.mark.parametrize("format", ["text", "po"])
def test_a_paragraph_that_is_too_long_stays_as_it_is(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("segments", "formats.po"):
        monkeypatch.setattr(f"seqloom.document.{module}.BLOCK_CHARACTERS", 10)
    long = "a long paragraph"
    text = f"{long}\nshort\n"
    if format == "po":
        text = f'msgid "{long}"\nmsgid_plural "x"\nmsgstr[0] ""\nmsgstr[1] ""\n\nmsgid "short"\nmsgstr ""\n'
    document = DocumentOptions(format).parse(text)
    assert [one.source for one in document.segments] == ["short"]
    assert [one.reason for one in document.kept][:1] == ["too long"]
    assert document.text == text
