"""Documents through a translator that copies, and through one that changes every segment."""

from __future__ import annotations

import re
import sys
from random import Random

import pytest

from seqloom.document import Document, LengthLimit, Split
from seqloom.document.sentences import has_words
from seqloom.errors import SeqloomError
from seqloom.types import Hypothesis

_LANGUAGES = ("en", "de", "zh", "ja", "ar", "hi", "pt-BR", "", "xx")
_PARTS = (
    *("Hello Dr. Smith. ", "How are you?", "  ", " ", "\t", "\n", "\r\n", "\r", "\n\n\n", "\u2028", "\x0b"),
    *(
        "a",
        "b c",
        "3.5",
        "e.g.",
        "…",
        "!?",
        "“",
        "”",
        "(",
        ")",
        "\ufeff",
        "\u200b",
        "\u00a0",
        "😀",
        "👩‍💻",
        "1️⃣",
    ),
    *(
        "e\u0301",
        "这是一句话。",
        "第二句！",
        "ありがとう。",
        "السلام عليكم؟",
        "नमस्ते।",
        "\x00",
        "<b>",
        "&amp;",
        "{name}",
        "ß",
        "ﬁ",
    ),
)


def _random_document(random: Random) -> str:
    return "".join(random.choices(_PARTS, k=random.randrange(30)))


def _translate(document: Document, change=lambda text: text) -> str:  # type: ignore[no-untyped-def]
    return document.assemble([Hypothesis(change(one.source), 0.0) for one in document.segments]).text


def test_1000_random_documents_come_back_equal() -> None:
    random = Random(1)
    for _ in range(1000):
        text = _random_document(random)
        split: Split = random.choice(["sentences", "lines", "none"])
        limit = (
            LengthLimit(random.randrange(1, 9), lambda part: len(part.split()))
            if random.random() < 0.5
            else None
        )
        document = Document.parse(text, language=random.choice(_LANGUAGES), split=split, limit=limit)
        assert document.text == text
        assert _translate(document) == text


def test_only_letters_and_digits_are_translated_and_lines_are_kept() -> None:
    random = Random(2)
    for _ in range(1000):
        text = _random_document(random)
        document = Document.parse(text, language="en")
        translated = _translate(document, lambda source: "X")
        assert len(translated.splitlines()) == len(text.splitlines())
        for old, new in zip(text.splitlines(keepends=True), translated.splitlines(keepends=True), strict=True):
            assert has_words(old) == ("X" in new)
            assert re.findall(r"\s*\Z", old) == re.findall(r"\s*\Z", new)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("Dr. Smith is here. Who?  Me!", ["Dr. Smith is here.", "Who?", "Me!"]),
        ("one line\nnext line", ["one line", "next line"]),
        ("name\tvalue\r\n\r\na", ["name", "value", "a"]),
        ("他来了。我走了。", ["他来了。", "我走了。"]),
        ("\ufeffHello.\u00a0", ["Hello."]),
        (" \t\n😀 👩‍💻 1️⃣ ℹ️ … —\n", []),
        ("", []),
    ],
)
def test_segments(text: str, sources: list[str]) -> None:
    language = "zh" if "。" in text else "en"
    segments = Document.parse(text, language=language).segments
    assert [one.source for one in segments] == sources
    assert [one.raw for one in segments] == sources


def test_split_by_lines_or_not_at_all() -> None:
    text = "One. Two.\n\nThree. "
    assert [one.source for one in Document.parse(text, split="lines").segments] == ["One. Two.", "Three."]
    assert [one.source for one in Document.parse(text, split="none").segments] == ["One. Two.", "Three."]
    values = Document.parse('{"a": "One. Two.\\n\\nThree. "}', "json", split="none").segments
    assert [one.source for one in values] == [text.strip()]


def test_a_long_sentence_is_split_at_the_best_place_and_flagged() -> None:
    limit = LengthLimit(6, lambda part: len(part.split()))
    text = "Short one. We walked along, we talked a lot; then it rained and everybody went home"
    document = Document.parse(text, language="en", limit=limit)
    assert [one.source for one in document.segments] == [
        "Short one.",
        "We walked along,",
        "we talked a lot;",
        "then it rained and everybody went",
        "home",
    ]
    result = document.assemble([Hypothesis(one.source, 0.0, flags=("copy",)) for one in document.segments])
    assert [one.flags for one in result.segments] == [("copy",), *[("copy", "split")] * 4]
    assert result.flags == {"copy": 5, "split": 4}


def test_a_long_text_without_spaces_is_split_between_visible_characters() -> None:
    document = Document.parse("e\u0301" * 50, limit=LengthLimit(7, len))
    assert {one.source for one in document.segments} == {"e\u0301" * 3, "e\u0301" * 2}
    family = Document.parse("a" + "👩‍💻" * 50, limit=LengthLimit(7, len))
    assert all(not one.source.startswith("\u200d") for one in family.segments)


def test_a_long_text_is_measured_only_near_the_limit() -> None:
    measured = []

    def tokens(part: str) -> int:
        measured.append(len(part))
        return len(part)

    Document.parse("a" * 100_000, split="none", limit=LengthLimit(100, tokens))
    assert max(measured) <= 200
    assert len(measured) < 10_000


def test_white_space_of_outputs_does_not_change_the_layout() -> None:
    document = Document.parse("  One. Two.\n")
    result = document.assemble([Hypothesis(" eins\n. ", 0.0), Hypothesis("Zwei.", -1.0)])
    assert result.text == "  eins . Zwei.\n"
    assert [one.text for one in result.segments] == ["eins .", "Zwei."]
    assert [one.place for one in result.segments] == ["line 1", "line 1"]
    assert result.segments[1].hypothesis.score == -1.0


def test_a_space_is_added_between_sentences_if_only_the_source_needs_none() -> None:
    document = Document.parse("他来了。我走了。", language="zh")
    assert _translate(document, lambda source: "He came.") == "He came. He came."
    assert _translate(document) == "他来了。我走了。"


def test_unknown_format_and_split() -> None:
    with pytest.raises(SeqloomError, match="document format"):
        Document.parse("a", "doc")
    with pytest.raises(SeqloomError, match="split"):
        Document.parse("a", split="words")  # type: ignore[arg-type]
    with pytest.raises(SeqloomError, match="surrogate"):
        Document.parse("\ud800")


def test_a_missing_splitter_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(SeqloomError, match="sentencex") as error:
        Document.parse("One. Two.")
    assert "seqloom[documents]" in error.value.hint
    assert Document.parse("One. Two.", split="lines").segments
