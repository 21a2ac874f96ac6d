"""Translation memories, and reports for a review."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from translate.storage import tmx

from seqloom.document import DocumentOptions, TranslationMemory, translate_document
from seqloom.document.report import check_report, report_of
from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair
from support.document_translators import FunctionTranslator, WordTranslator


def test_a_memory_of_translate_toolkit(tmp_path: Path) -> None:
    store = tmx.tmxfile()
    store.addtranslation("One house.", "en", "Ein Haus.", "de")
    store.addtranslation("Two houses.", "en", "Zwei Häuser.", "de")
    (tmp_path / "a.tmx").write_bytes(bytes(store))
    memory = TranslationMemory.read(str(tmp_path / "a.tmx"), LanguagePair("en", "de"))
    assert len(memory) == 2
    exact, similar = memory.find(" One  house."), memory.find("Two horses.")
    assert exact is not None
    assert (exact.target, exact.similarity) == ("Ein Haus.", 100.0)
    assert similar is not None
    assert similar.target == "Zwei Häuser."
    assert 80 < similar.similarity < 100
    assert memory.find("Something else entirely") is None
    with pytest.raises(SeqloomError, match=r"no pairs.*Languages of the files: de, en\."):
        TranslationMemory.read(str(tmp_path / "a.tmx"), LanguagePair("en", "fr"))
    with pytest.raises(SeqloomError, match=r"a\.doc"):
        TranslationMemory.read("a.doc")


def test_the_training_data_is_a_memory(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"source": "One.", "target": "Eins."}\n{"source": "x", "target": ""}\n')
    memory = TranslationMemory.read(str(path), LanguagePair("en", "de"))
    assert len(memory) == 1
    assert "One." in memory


def test_equal_blocks_and_sentences_are_not_translated() -> None:
    memory = TranslationMemory([("One. Two.", "Eins und zwei."), ("Three.", "Drei.")])
    translator = FunctionTranslator(lambda request: request.source.upper())
    result = translate_document(translator, "One. Two.\nThree. Four.\n", DocumentOptions(memory=memory))
    assert result.text == "Eins und zwei.\nDrei. FOUR.\n"
    assert [one.is_from_memory for one in result.segments] == [True, True, False]
    assert [request.source for request in translator.requests] == ["Four."]
    marked = translate_document(translator, "**One.** Two", DocumentOptions("markdown", memory=memory))
    assert not any(one.is_from_memory for one in marked.segments)


def test_the_worst_segments_come_first() -> None:
    text = "good words here\nlost {name} <b>\n"
    options = DocumentOptions(alignment=True, memory=TranslationMemory([("good words hear", "x & y")]))
    result = translate_document(WordTranslator(), text, options)
    report = json.loads(report_of(result, Path("a.json")))
    assert [row["source"] for row in report["segments"]] == ["lost {name} <b>", "good words here"]
    first, second = report["segments"]
    assert first["flags"] == ["placeholder"]
    assert (second["place"], second["memory"]["target"]) == ("line 1", "x & y")
    assert second["alignment"] == [["here", "HERE"], ["words", "WORDS"], ["good", "GOOD"]]
    page = report_of(result, Path("a.html"))
    assert page.index("lost {name} &lt;b&gt;") < page.index("good words here")
    assert "x &amp; y" in page
    assert "<b>" not in page
    with pytest.raises(SeqloomError, match=r"a\.txt"):
        check_report(Path("a.txt"))
