"""Segments of Markdown, subtitles and JSON, and their translations with changed words."""

from __future__ import annotations

import json
from random import Random

import pytest
from markdown_it import MarkdownIt

from seqloom.document import DocumentOptions, DocumentResult, translate_document
from seqloom.errors import SeqloomError
from support.document_translators import FunctionTranslator, WordTranslator
from support.random_documents import json_resource

_UPPER = FunctionTranslator(lambda request: request.source.upper())


def _sources(text: str, format: str) -> list[str]:
    return [one.source for one in DocumentOptions(format, language="en").parse(text).segments]


def _reversed(text: str, format: str) -> DocumentResult:
    return translate_document(WordTranslator(), text, DocumentOptions(format, language="en"))


MARKDOWN = """---
title: Not translated
---
# A *big* title

First sentence
goes on. See [the guide](guide.md "x").

> quoted words
> in two lines

- [ ] item `code` here

```python
code = "stays"
```

| head | cell |
|------|------|
| one  | two words |

<p>html stays</p>

[ref]: https://example.org "stays"
"""


def test_segments_of_markdown() -> None:
    assert _sources(MARKDOWN, "markdown") == [
        *("A big title", "First sentence goes on.", "See the guide.", "quoted words in two lines"),
        *("[ ] item `code` here", "head", "cell", "one", "two words"),
    ]


def test_markup_and_lines_of_markdown_follow_the_words() -> None:
    result = _reversed(MARKDOWN, "markdown")
    assert "# TITLE *BIG* A\n" in result.text
    assert "> LINES TWO IN\n> WORDS QUOTED\n" in result.text
    assert '[GUIDE. THE](guide.md "x") SEE' in result.text
    assert len(result.text.splitlines()) == len(MARKDOWN.splitlines())
    before, after = (MarkdownIt().enable("table").parse(text) for text in (MARKDOWN, result.text))
    assert [token.type for token in before] == [token.type for token in after]
    assert result.flags == {"placeholder": 1}  # the code, in capitals


def test_a_translation_does_not_become_markup() -> None:
    translator = FunctionTranslator(lambda request: "*new* _markup_ [here](x) <b> &amp; `code`")
    result = translate_document(
        translator, "Some words.\n", DocumentOptions("markdown", placeholders=frozenset())
    )
    (_, inline, _) = MarkdownIt().parse(result.text)
    assert [(child.type, child.content) for child in inline.children or ()] == [
        ("text", "*new* _markup_ [here](x) <b> &amp; `code`")
    ]


def test_a_line_of_markdown_does_not_begin_another_block() -> None:
    translator = FunctionTranslator(lambda request: "one - two 1. three # four")
    result = translate_document(translator, "one two\nthree four\n", DocumentOptions("markdown", language="en"))
    assert [token.type for token in MarkdownIt().parse(result.text)][1:2] == ["inline"]
    assert result.text.count("\n") == 2


def test_subtitles() -> None:
    text = (
        "\ufeff1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>I went to</i>\r\nthe <b>old</b> store.\r\n\r\n"
        "2\r\n00:00:02,000 --> 00:00:03,000\r\n- Who?\r\n- Me & you!\r\n"
    )
    assert _sources(text, "subtitles") == ["I went to the old store.", "- Who?", "- Me & you!"]
    result = _reversed(text, "subtitles")
    assert "STORE. <b>OLD</b>\r\nTHE <i>TO WENT I</i>\r\n\r\n" in result.text
    assert result.text.startswith("\ufeff1\r\n00:00:01,000 --> 00:00:02,000\r\n")
    assert result.text.count("\r\n") == text.count("\r\n")


def test_webvtt_escapes_and_notes() -> None:
    text = "WEBVTT\n\nNOTE stays here\n\n00:01.000 --> 00:02.000 align:start\n<v Ann>Salt &amp; pepper &lt;3\n"
    assert _sources(text, "subtitles") == ["Salt & pepper <3"]
    result = translate_document(
        FunctionTranslator(lambda request: "a < b & c"), text, DocumentOptions("subtitles")
    )
    assert result.text.endswith("<v Ann>a &lt; b &amp; c\n")
    assert "NOTE stays here" in result.text


def test_json_values_are_translated() -> None:
    text = (
        '{"menu": {"open": "Open \\"it\\"", "n": 1, "@open": {"description": "no"}}, '
        '"list": ["a b", "\\u00e9"]}'
    )
    result = translate_document(_UPPER, text, DocumentOptions("json", language="en"))
    assert json.loads(result.text) == {
        "menu": {"open": 'OPEN "IT"', "n": 1, "@open": {"description": "no"}},
        "list": ["A B", "É"],
    }
    assert result.text.isascii()  # as the source is
    assert [one.place for one in result.segments] == ["menu.open", "list.0", "list.1"]


def test_random_json_keeps_everything_but_words() -> None:
    random = Random(6)
    for _ in range(100):
        text = json_resource(random)
        result = translate_document(_UPPER, text, DocumentOptions("json", placeholders=frozenset()))
        before, after = (json.dumps(json.loads(one), ensure_ascii=False) for one in (text, result.text))
        assert after.upper() == before.upper()


@pytest.mark.parametrize("text", ["", "{", '{"a": "b}', "[1,]", "[" * 1000 + "]" * 1000, '"a\nb"', "{'a': 1}"])
def test_invalid_json(text: str) -> None:
    with pytest.raises(SeqloomError, match=r"my\.json"):
        DocumentOptions("json").parse(text, "my.json")
