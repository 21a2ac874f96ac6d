"""Glossaries: tables and TBX, matches of complete words, required forms, and the report of missed terms."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqloom.document import DocumentOptions, Glossary, Term, translate_document
from seqloom.document.translation import term_report
from seqloom.errors import SeqloomError
from seqloom.types import Request
from support.document_translators import FunctionTranslator

TBX = """<?xml version="1.0"?>
<tbx xmlns="urn:iso:std:iso:30042:ed-2" type="TBX-Core"><text><body>
<conceptEntry id="1">
  <langSec xml:lang="en-GB"><termSec><term>house</term></termSec></langSec>
  <langSec xml:lang="de"><termSec><term>Haus</term></termSec><termSec><term>Gebäude</term></termSec></langSec>
</conceptEntry>
<conceptEntry id="2"><langSec xml:lang="fr"><termSec><term>chat</term></termSec></langSec></conceptEntry>
</body></text></tbx>"""


def _glossary() -> Glossary:
    return Glossary(
        [
            Term(("house", "houses"), ("Haus", "Häuser")),
            Term(("guest house",), ("Pension",)),
            Term(("US",), ("USA",)),
        ]
    )


@pytest.mark.parametrize(
    ("source", "targets"),
    [
        ("Two houses, one House.", ["Haus"]),
        ("a guest  house", ["Pension"]),
        ("households in the us", []),
        ("the US", ["USA"]),
        ("", []),
    ],
)
def test_terms_match_complete_words(source: str, targets: list[str]) -> None:
    assert [term.targets[0] for term in _glossary().find(source)] == targets


def test_terms_of_a_script_without_spaces() -> None:
    assert Glossary([Term(("房子",), ("house",))]).find("这个房子很大")


def test_missed_terms_are_required_in_any_form_and_reported() -> None:
    def stubborn(request: Request) -> str:
        for one in request.required:
            assert isinstance(one, tuple)
            if "Pension" in one:
                return "Die Pension"
        return "Etwas" if "house" not in request.source else "Drei Häuser"

    translator = FunctionTranslator(stubborn)
    options = DocumentOptions(glossary=_glossary())
    result = translate_document(translator, "Three houses.\nA guest house.\nThe US.", options)
    assert result.text == "Drei Häuser\nDie Pension\nEtwas"
    assert result.flags == {"term": 1}
    report = {use.term.targets[0]: (use.used, use.missed) for use in term_report([result], options.glossary)}
    assert report == {"USA": (0, 1), "Haus": (1, 0), "Pension": (1, 0)}


def test_a_glossary_needs_required_words() -> None:
    with pytest.raises(SeqloomError, match="required words"):
        translate_document(
            FunctionTranslator(capabilities=frozenset()), "a house", DocumentOptions(glossary=_glossary())
        )


def test_tables_and_tbx(tmp_path: Path) -> None:
    table = tmp_path / "terms.tsv"
    table.write_text("# terms\nhouse|houses\tHaus|Häuser\n\nUS\tUSA\n", encoding="utf-8")
    assert Glossary.read(str(table)).terms[0] == Term(("house", "houses"), ("Haus", "Häuser"))
    tbx = tmp_path / "terms.tbx"
    tbx.write_text(TBX, encoding="utf-8")
    assert Glossary.read(str(tbx), ("en", "de")).terms == (Term(("house",), ("Haus", "Gebäude")),)
    with pytest.raises(SeqloomError, match="no terms in en-US and de") as error:
        Glossary.read(str(tbx), ("en-US", "de"))
    assert "de, en-GB, fr" in error.value.hint
    with pytest.raises(SeqloomError, match="several languages"):
        Glossary.read(str(tbx))
    table.write_text("house\n", encoding="utf-8")
    with pytest.raises(SeqloomError, match=r"line 1 is not a term"):
        Glossary.read(str(table))


@pytest.mark.parametrize(
    "content",
    [
        "<a>",
        "",
        "not XML",
        '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        "<a>" * 100_000,
    ],
)
def test_hostile_xml_is_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "terms.tbx"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(SeqloomError, match=r"not valid XML|XML entities"):
        Glossary.read(str(path), ("en", "de"))
