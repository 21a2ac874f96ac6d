"""Message catalogues, read again by polib and compiled by msgfmt."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

import polib
import pytest

from seqloom.data.units.po import read_po
from seqloom.data.units.unit import OBSOLETE
from seqloom.document import DocumentOptions, DocumentResult, translate_document
from seqloom.document.formats import find_format
from seqloom.errors import SeqloomError
from support.document_translators import FunctionTranslator
from support.random_documents import po

_HEADER = (
    'msgid ""\nmsgstr ""\n"Language: sl\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    '"Plural-Forms: nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);\\n"\n\n'
)
_UPPER = FunctionTranslator(lambda request: request.source.replace("file", "DATEI").replace("Open", "ÖFFNE"))


def _translated(catalogue: str, *, overwrite: bool = False) -> DocumentResult:
    return translate_document(
        _UPPER, (_HEADER + catalogue).encode(), DocumentOptions("po", overwrite=overwrite, language="en")
    )


def _entries(result: DocumentResult) -> polib.POFile:
    return polib.pofile(result.to_bytes().decode())


def test_untranslated_entries_are_translated_and_all_else_is_kept() -> None:
    catalogue = (
        '# a translator\n#: menu.py:3\nmsgctxt "menu"\nmsgid "Open\\n"\n"the \\"file\\""\nmsgstr ""\n\n'
        'msgid "Close"\nmsgstr "Schließen"\n\n#, fuzzy\n#| msgid "Sav"\nmsgid "Save file"\nmsgstr "Sichern"\n\n'
        '#~ msgid "old"\n#~ msgstr "alt"\n'
    )
    result = _translated(catalogue)
    menu, close, save, old = _entries(result)
    assert (menu.msgctxt, menu.msgid, menu.msgstr) == ("menu", 'Open\nthe "file"', 'ÖFFNE\nthe "DATEI"')
    assert (close.msgstr, save.msgstr, save.fuzzy, save.previous_msgid) == ("Schließen", "Sichern", True, "Sav")
    assert old.obsolete
    assert [(one.source, one.reason, one.place) for one in result.kept] == [
        ("Close", "translated", "line 14"),
        ("Save file", "fuzzy", "line 19"),
    ]
    unchanged = [line for line in result.text.splitlines() if "msgstr" not in line and "ÖFFNE" not in line]
    assert set(unchanged) <= {*(_HEADER + catalogue).splitlines(), '"the \\"DATEI\\""'}


def test_overwriting_replaces_translations_and_their_marks() -> None:
    result = _translated(
        'msgid "Close"\nmsgstr "Schließen"\n\n'
        '#, fuzzy, c-format\n#| msgid "Sav"\nmsgid "Save file"\nmsgstr "x"\n',
        overwrite=True,
    )
    close, save = _entries(result)
    assert (close.msgstr, save.msgstr, save.fuzzy) == ("Close", "Save DATEI", False)
    assert save.flags == ["c-format"]
    assert save.previous_msgid is None


def test_every_plural_form_of_the_language_is_filled() -> None:
    (entry,) = _entries(_translated('msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'))
    assert entry.msgstr_plural == {0: "%d DATEI", 1: "%d DATEIs", 2: "%d DATEIs", 3: "%d DATEIs"}
    header = _HEADER.replace("nplurals=4; plural=(n%100==1", "nplurals=1; plural=0; (")
    assert "nplurals=1" in header
    japanese = header + 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\n'
    result = translate_document(_UPPER, japanese.encode(), DocumentOptions("po", language="en"))
    assert _entries(result)[0].msgstr_plural == {0: "%d DATEIs"}


def test_a_translation_that_lost_a_placeholder_is_marked_as_fuzzy() -> None:
    lossy = FunctionTranslator(lambda request: request.source.replace("%s", ""), frozenset())
    catalogue = _HEADER + '# note\n#, c-format\nmsgid "Open %s"\nmsgstr ""\n\nmsgid "Close"\nmsgstr ""\n'
    result = translate_document(lossy, catalogue.encode(), DocumentOptions("po"))
    opened, close = _entries(result)
    assert (opened.fuzzy, opened.msgstr, opened.tcomment) == (True, "Open", "note")
    assert not close.fuzzy
    assert result.flags == {"placeholder": 1}


def test_polib_and_msgfmt_accept_random_catalogues() -> None:
    random = Random(5)
    translator = FunctionTranslator(lambda request: "ä \\ " + request.source)
    for number in range(40):
        source = po(random)
        result = translate_document(translator, source.encode(), DocumentOptions("po", overwrite=True))
        before, after = polib.pofile(source), polib.pofile(result.text)
        assert [(one.msgctxt, one.msgid, one.msgid_plural, one.occurrences, one.comment) for one in before] == [
            (one.msgctxt, one.msgid, one.msgid_plural, one.occurrences, one.comment) for one in after
        ]
        if number < 5 and shutil.which("msgfmt"):
            checked = ["msgfmt", "--check-format", "--check-domain", "-o", "/dev/null", "-"]
            subprocess.run(checked, input=result.to_bytes(), check=True, capture_output=True)


def test_catalogues_have_the_same_texts_as_documents_and_as_training_data(tmp_path: Path) -> None:
    random, path = Random(6), tmp_path / "a.po"
    for _ in range(40):
        catalogue = po(random)
        path.write_text(catalogue, encoding="utf-8", newline="")
        blocks = (one for one in find_format("po").parse(catalogue, "a") if not isinstance(one, str))
        units = [unit for unit in read_po(str(path), None) if unit.skipped != OBSOLETE]
        assert [one.text for one in blocks] == [unit.source for unit in units]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'msgid "a"\n', "msgstr"),
        (b'msgid "a"\nmsgid "b"\nmsgstr ""\n', "line 2"),
        (b'msgid "a\nmsgstr ""\n', "line 1"),
        (b"hello\n", "line 1"),
        (b'"a"\n', "line 1"),
        (b'msgid ""\nmsgstr "charset=UTF-8"\n\nmsgid "\xff"\nmsgstr ""', "UTF-8"),
        (b'msgid ""\nmsgstr "charset=base64"\n', "encoding"),
    ],
)
def test_invalid_catalogues(data: bytes, message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        DocumentOptions("po").parse(data, "a.po")


def test_an_old_encoding_is_kept_and_must_have_the_characters() -> None:
    catalogue = _HEADER.replace("UTF-8", "ISO-8859-1") + 'msgid "Open é"\nmsgstr ""\n'
    data = catalogue.encode("latin-1")
    result = translate_document(_UPPER, data, DocumentOptions("po"))
    assert 'msgstr "ÖFFNE é"'.encode("latin-1") in result.to_bytes()
    result = translate_document(FunctionTranslator(lambda request: "世界 é"), data, DocumentOptions("po"))
    with pytest.raises(SeqloomError, match="ISO-8859-1") as error:
        result.to_bytes()
    assert "msgconv" in error.value.hint
