"""Placeholders are found, kept in segments, required of outputs, and verified."""

from __future__ import annotations

import re
from itertools import pairwise
from random import Random

import pytest

from seqloom.decode.config import SearchConfig
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.document import DocumentOptions, PlaceholderFinder, translate_document
from seqloom.document.placeholders import ALWAYS, Kind
from seqloom.errors import SeqloomError
from seqloom.types import Request
from support.document_translators import FunctionTranslator
from support.step_models import random_model
from support.tokenizers import char_tokenizers

ICU = "{n, plural, =0 {no files} one {# file. Done} other {# files}}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello {name}, {{x}} and {0:.2f}!", ["{name}", "{{x}}", "{0:.2f}"]),
        ("%1$s is %(n)d of %d (%.2f %%), %@", ["%1$s", "%(n)d", "%d", "%.2f", "%%", "%@"]),
        ("50% of it, 100 %in, 3 %d", []),
        ('a <x id="1"/> b <g>c</g> 1 < 2 > 0', ['<x id="1"/>', "<g>", "</g>"]),
        (f"You have {ICU}.", [ICU]),
        ("{n, plural, one {# file}", []),
        (
            "See https://a.b/c?d=e&f=(g). Or www.x.org/y, mail me@x.co.uk!",
            ["https://a.b/c?d=e&f=(g", "www.x.org/y", "me@x.co.uk"],
        ),
        ("Run `make test` or ``a`b``.", ["`make test`", "``a`b``"]),
        ("${home} #{x} %{y} {% url 'a' %}", ["${home}", "#{x}", "%{y}", "{% url 'a' %}"]),
        ("a &nbsp; b &#39; c & d; e", ["&nbsp;", "&#39;"]),
        ("A set {a, b} of 3 letters, NATO", []),
    ],
)
def test_placeholders_of_a_text(text: str, found: list[str]) -> None:
    assert [one.text for one in PlaceholderFinder().find(text)] == found
    assert all(text[one.start : one.end] == one.text for one in PlaceholderFinder().find(text))


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("number", "3 of 1,000.5 at 12:30 in v2, -7", ["3", "1,000.5", "12:30", "-7"]),
        ("capitals", "NATO and the EU2 in I Ärger ÄÖ", ["NATO", "EU2", "ÄÖ"]),
    ],
)
def test_numbers_and_capitals_by_option(kind: Kind, text: str, found: list[str]) -> None:
    assert [one.text for one in PlaceholderFinder({kind}).find(text)] == found


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="kind of placeholder"):
        PlaceholderFinder(["brace"])  # type: ignore[list-item]


def test_a_segment_does_not_end_inside_a_placeholder() -> None:
    translator = FunctionTranslator()
    text = f"You have {ICU}. The next one. {{name}}"
    assert translate_document(translator, text).text == text
    assert [request.source for request in translator.requests] == [f"You have {ICU}.", "The next one."]


def test_lost_and_repeated_placeholders_are_required_then_flagged() -> None:
    def lossy(request: Request) -> str:
        kept = " ".join(one if isinstance(one, str) else one[0] for one in request.required)
        return f"X {kept}".strip()

    text = "First {a} and {a}. Then %s."
    repaired = translate_document(translator := FunctionTranslator(lossy), text)
    assert repaired.text == "X {a} {a} X %s"
    assert not repaired.flags
    assert [request.required for request in translator.requests[2:]] == [("{a}", "{a}"), ("%s",)]
    lost = translate_document(FunctionTranslator(lossy, frozenset()), text)
    assert lost.text == "X X"
    assert lost.flags == {"placeholder": 2}
    added = translate_document(FunctionTranslator(lambda request: f"{request.source} {{b}}"), "A {a}.")
    assert added.flags == {"placeholder": 1}


def test_a_placeholder_is_also_required_beside_the_tag_that_contains_it() -> None:
    translator = FunctionTranslator(lambda request: "")
    translate_document(translator, 'See <a b="%(n)s">%(n)s</a>.')
    assert translator.requests[-1].required == ('<a b="%(n)s">', "%(n)s", "</a>", "%(n)s")


def test_a_random_model_generates_repeated_placeholders() -> None:
    letters = "abc %1$s {n} (.)"
    tokenizers = char_tokenizers(letters, letters)
    model = random_model("transformer", tokenizers.vocabularies, seed=1)
    translator = TorchTranslator(model, tokenizers, SearchConfig(beam=2, longest=40))
    result = translate_document(translator, "a {n} b {n} (%1$s).", DocumentOptions(split="none"))
    assert result.text.count("{n}") == 2
    assert "%1$s" in result.text
    assert "{n}" not in translator.translate("a {n} b {n} (%1$s).")[0].text  # without the requirement
    # A placeholder outside the vocabulary cannot be required: the output is flagged.
    assert "placeholder" in translate_document(translator, "a {XY} b").flags


def test_random_texts_have_separate_placeholders_in_order() -> None:
    random = Random(3)
    parts = [
        "{",
        "}",
        "{{",
        "%",
        "s",
        "d",
        "%(",
        ")",
        "$",
        "1",
        "<",
        "/>",
        "a",
        " ",
        "`",
        "@",
        ".",
        "plural",
        ",",
    ]
    finder = PlaceholderFinder((*ALWAYS, "number", "capitals"))
    for _ in range(2000):
        text = "".join(random.choices(parts, k=random.randrange(20)))
        found = finder.find(text)
        assert all(one.end <= other.start for one, other in pairwise(found))
        assert all(one.text and text[one.start : one.end] == one.text for one in found)
        if not found:
            assert not re.search(r"\{\{[^{}\n]*\}\}|%\(\w+\)[sd]", text)
