"""DOCX and ODT, written and read again by python-docx and odfpy."""

from __future__ import annotations

import io
import zipfile
from random import Random

import docx
import pytest
from odf import teletype
from odf.draw import Frame, TextBox
from odf.office import Annotation
from odf.opendocument import OpenDocumentText, load
from odf.style import Style, TextProperties
from odf.text import A, H, Note, NoteBody, NoteCitation, P, Span

from seqloom.document import DocumentOptions, DocumentResult, translate_document
from seqloom.errors import SeqloomError
from support.document_translators import FunctionTranslator, WordTranslator

_WORDS = ("Hello", "world.", "How are you?", "a & b", "<x>", "\t", "\n", "  ", "é", "这是。", "{name}", "3.5")
_Runs = list[list[tuple[str, bool | None, bool | None]]]


def _text(random: Random) -> str:
    return " ".join(random.choices(_WORDS, k=random.randrange(5)))


def _random_docx(random: Random) -> bytes:
    document = docx.Document()
    for _ in range(random.randrange(4)):
        paragraph = document.add_paragraph()
        for _ in range(random.randrange(4)):
            run = paragraph.add_run(_text(random))
            run.bold, run.italic = random.choice((None, True)), random.choice((None, True))
    document.add_heading(_text(random))
    document.add_table(1, 1).cell(0, 0).text = _text(random)
    return _bytes(document)


def _bytes(document: docx.document.Document) -> bytes:
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def _runs(data: bytes) -> _Runs:
    document = docx.Document(io.BytesIO(data))
    cells = [cell for table in document.tables for row in table.rows for cell in row.cells]
    paragraphs = [*document.paragraphs, *(one for cell in cells for one in cell.paragraphs)]
    return [[(run.text, run.bold, run.italic) for run in one.runs] for one in paragraphs]


def _random_odt(random: Random) -> bytes:
    document = OpenDocumentText()
    bold = Style(name="B", family="text")
    bold.addElement(TextProperties(fontweight="bold"))
    document.automaticstyles.addElement(bold)
    for _ in range(random.randrange(1, 5)):
        paragraph = random.choice((P, lambda: H(outlinelevel=1)))()
        for _ in range(random.randrange(4)):
            inside = random.choice((None, Span(stylename="B"), A(href="https://example.org")))
            teletype.addTextToElement(paragraph if inside is None else inside, _text(random))
            if inside is not None:
                paragraph.addElement(inside)
        document.text.addElement(paragraph)
    stream = io.BytesIO()
    document.write(stream)
    return stream.getvalue()


def _odt_text(data: bytes) -> list[str]:
    document = load(io.BytesIO(data))
    return [teletype.extractText(one) for kind in (P, H) for one in document.getElementsByType(kind)]


def _files(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def _translate(data: bytes, format: str) -> DocumentResult:
    return translate_document(WordTranslator(), data, DocumentOptions(format, language="en"))


def _check_copies(format: str, seed: int, count: int) -> None:
    random = Random(seed)
    for _ in range(count):
        data = (_random_docx if format == "docx" else _random_odt)(random)
        split = random.choice(("sentences", "lines", "none"))
        options = DocumentOptions(format, split=split, language="en")  # type: ignore[arg-type]
        copied = translate_document(FunctionTranslator(), data, options).to_bytes()
        assert _files(copied) == _files(data)
        read = _runs if format == "docx" else _odt_text
        assert read(copied) == read(data)  # type: ignore[operator]


@pytest.mark.parametrize("format", ["docx", "odt"])
def test_copied_documents_are_equal(format: str) -> None:
    _check_copies(format, seed=1, count=8)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("format", ["docx", "odt"])
def test_many_copied_documents_are_equal(format: str) -> None:
    _check_copies(format, seed=2, count=500)


def test_formats_of_word_follow_their_words() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("The ")
    paragraph.add_run("very old").bold = True
    paragraph.add_run(" house & garden.\tNext cell")
    bold = document.add_paragraph()
    bold.add_run("Note:").bold = True
    bold.add_run(" all words <here>")
    result = _translate(_bytes(document), "docx")
    assert not result.flags - result.flags.__class__({"placeholder": 1})
    first, second = _runs(result.to_bytes())
    assert "".join(text for text, *_ in first) == "GARDEN. & HOUSE OLD VERY THE\tCELL NEXT"
    assert [text for text, is_bold, _ in first if is_bold] == ["OLD VERY"]
    assert "".join(text for text, *_ in second) == "<HERE> WORDS ALL NOTE:"
    assert [text for text, is_bold, _ in second if is_bold] == ["NOTE:"]


def test_spans_of_odt_follow_their_words() -> None:
    document = OpenDocumentText()
    paragraph = P(text="See the ")
    link = A(href="https://example.org")
    link.addText("old house")
    paragraph.addElement(link)
    paragraph.addText(" & garden.")
    document.text.addElement(paragraph)
    stream = io.BytesIO()
    document.write(stream)
    result = _translate(stream.getvalue(), "odt")
    (link,) = load(io.BytesIO(result.to_bytes())).getElementsByType(A)
    assert teletype.extractText(link) == "HOUSE OLD"
    assert _odt_text(result.to_bytes()) == ["GARDEN. & HOUSE OLD THE SEE"]
    assert not result.flags


_BOX = (
    '<w:p xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:v="urn:schemas-microsoft-com:vml"><w:r><w:t xml:space="preserve">Around the box </w:t></w:r>'
    '<w:r><w:pict><v:shape id="s1"><v:textbox><w:txbxContent><w:p><w:r><w:t>Inside &amp; bold</w:t></w:r></w:p>'
    "<w:p><w:r><w:t>Second line</w:t></w:r></w:p></w:txbxContent></v:textbox></v:shape></w:pict></w:r></w:p>"
)


def _boxed_docx() -> bytes:
    document = docx.Document()
    document.add_paragraph("Before")
    document.element.body.insert(1, docx.oxml.parse_xml(_BOX))
    return _bytes(document)


def test_text_boxes_of_word_are_translated() -> None:
    result = _translate(_boxed_docx(), "docx")
    document = docx.Document(io.BytesIO(result.to_bytes()))
    texts = [
        "".join(text.text for run in one.iterchildren("{*}r") for text in run.iterchildren("{*}t"))
        for one in document.element.body.iter("{*}p")
    ]
    assert [text.strip() for text in texts] == ["BEFORE", "BOX THE AROUND", "BOLD & INSIDE", "LINE SECOND"]
    assert [one.segment.source for one in result.segments] == [
        "Before",
        "Inside & bold",
        "Second line",
        "Around the box",
    ]
    assert not result.flags


def test_frames_and_footnotes_of_odt_are_translated_but_no_comments() -> None:
    document = OpenDocumentText()
    paragraph = P(text="Around the frame")
    frame, box = Frame(width="5cm"), TextBox()
    box.addElement(P(text="Inside the frame"))
    frame.addElement(box)
    note, body = Note(noteclass="footnote"), NoteBody()
    body.addElement(P(text="Below the page"))
    note.addElement(NoteCitation(text="1"))
    note.addElement(body)
    comment = Annotation()
    comment.addElement(P(text="A remark"))
    for one in (frame, note, comment):
        paragraph.addElement(one)
    document.text.addElement(paragraph)
    stream = io.BytesIO()
    document.write(stream)
    result = _translate(stream.getvalue(), "odt")
    read = load(io.BytesIO(result.to_bytes())).getElementsByType(P)
    assert teletype.extractText(read[0]).startswith("FRAME THE AROUND")
    assert [teletype.extractText(one) for one in read[1:]] == ["FRAME THE INSIDE", "PAGE THE BELOW", "A remark"]


def _zip(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return stream.getvalue()


_BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><x>&b;</x>'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a DOCX"),
        (b"PK\x03\x04 damaged", "not a DOCX"),
        (_zip({"a.xml": b"<a/>"}), "no text"),
        (_zip({"word/document.xml": b"<a>"}), "not valid XML"),
        (_zip({"word/document.xml": _BOMB}), "entities"),
        (_zip({f"{i}.xml": b"" for i in range(20_001)}), "20,000 files"),
        (_zip({"word/document.xml": b"<a/>"})[:-30], "not a DOCX"),
        (_zip({"word/document.xml": '<?xml version="1.0" encoding="UTF-16"?><a/>'.encode("utf-16")}), "UTF-8"),
    ],
)
def test_hostile_files(data: bytes, message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        DocumentOptions("docx").parse(data, "a.docx")


def test_a_zip_bomb_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.document.formats.zip_file.DOCUMENT_BYTES", 10_000)
    with pytest.raises(SeqloomError, match="10,000 decompressed bytes"):
        DocumentOptions("odt").parse(_zip({"content.xml": b" " * 10_001}), "a.odt")


def test_damaged_documents_give_clear_errors() -> None:
    random, errors = Random(3), 0
    originals = {"docx": _random_docx(Random(1)), "odt": _random_odt(Random(1))}
    for i in range(100):
        format = ("docx", "odt")[i % 2]
        data = bytearray(originals[format])
        for _ in range(random.randrange(1, 20)):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            translate_document(FunctionTranslator(), bytes(data), DocumentOptions(format)).to_bytes()
        except SeqloomError:
            errors += 1
    assert errors > 10
