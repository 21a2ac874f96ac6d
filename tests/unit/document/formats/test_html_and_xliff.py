"""HTML and XLIFF, read again by html5lib and translate-toolkit."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import html5lib
import pytest
from lxml import etree
from translate.storage import xliff as xliff1
from translate.storage import xliff2

from seqloom.document import DocumentOptions, TranslationMemory, translate_document, translate_html
from seqloom.errors import SeqloomError
from support.document_translators import FunctionTranslator, WordTranslator
from support.random_documents import html, xliff

PAGE = """<!DOCTYPE html>
<html><head><title>The page</title><script>var a = "<p>no</p>";</script></head>
<body><p class="x">See the <a href="a.html"><b>old</b> house</a> &amp; garden.
New line <img src="i.png"> here.</p><pre>code stays</pre><p translate="no">Acme stays</p></body></html>
"""


def test_tags_of_html_follow_their_words() -> None:
    result = translate_html(WordTranslator(), PAGE, DocumentOptions(language="en"))
    assert [one.segment.source for one in result.segments] == [
        *("The page", "See the old house & garden.", "New line  here.")
    ]
    assert 'GARDEN. &amp; <a href="a.html">HOUSE <b>OLD</b></a> THE SEE' in result.text
    assert '<img src="i.png">' in result.text
    assert '<pre>code stays</pre><p translate="no">Acme stays</p>' in result.text
    assert not result.flags
    before, after = (html5lib.parse(text, namespaceHTMLElements=False) for text in (PAGE, result.text))
    assert [element.tag for element in before.iter()] != []
    assert Counter(element.tag for element in before.iter()) == Counter(element.tag for element in after.iter())


def _words_by_tag(text: str) -> Counter[tuple[str, tuple[str, ...]]]:
    found: Counter[tuple[str, tuple[str, ...]]] = Counter()

    def visit(element: etree._Element, path: tuple[str, ...]) -> None:
        inside = (*path, str(element.tag))
        found.update((word.lower(), inside) for word in re.findall(r"\w+", element.text or ""))
        for child in element:
            visit(child, inside)
            found.update((word.lower(), inside) for word in re.findall(r"\w+", child.tail or ""))

    visit(html5lib.parseFragment(text, treebuilder="lxml", namespaceHTMLElements=False)[0], ())
    return found


def test_every_word_keeps_its_tags_in_reversed_sentences() -> None:
    random, moved = Random(7), 0
    for _ in range(300):
        words = [f"w{i}" for i in range(random.randrange(2, 9))]
        first, last = sorted(random.sample(range(len(words) + 1), 2))
        inner = random.randrange(first, last)
        words[inner] = f"<i>{words[inner]}</i>"
        words[first] = f"<b>{words[first]}"
        words[last - 1] += "</b>"
        text = f"<p>{' '.join(words)}</p>"
        result = translate_html(WordTranslator(), text)
        assert not result.flags
        assert _words_by_tag(result.text) == _words_by_tag(text)
        moved += result.text.lower() != text
    assert moved > 250


def test_markup_without_an_alignment_is_left_out_and_flagged() -> None:
    translator = FunctionTranslator(lambda request: "Neu")
    result = translate_html(translator, "<p>An <b>old</b> <img src=x> house.</p>")
    assert result.text == "<p>Neu<img src=x></p>"
    assert result.flags == {"markup": 1}


def test_a_translation_cannot_add_tags() -> None:
    translator = FunctionTranslator(lambda request: "<script>x</script> & more")
    result = translate_html(translator, "<p>Some words here.</p>")
    assert result.text == "<p>&lt;script&gt;x&lt;/script&gt; &amp; more</p>"


def test_random_pages_keep_their_tags() -> None:
    random = Random(8)
    for _ in range(100):
        page = html(random)
        result = translate_html(WordTranslator(), page, DocumentOptions(placeholders=frozenset()))
        if not result.flags:
            before, after = (Counter(re.findall(r"</?\w[^<>]*>", text)) for text in (page, result.text))
            assert before == after


_ATTRIBUTES = """<html><head><meta charset="utf-8"><meta name="Description" content="About our house">
<meta name="viewport" content="width=device-width"><link rel="next" title="not shown" href="x"></head><body title='Ann&#39;s "page"'>
<p>See <img src="a.png" alt=dog title="A dog &amp; a cat"> here <a title="Go there" href="b">now</a>.</p><img alt="" src="c">
<p><img alt="Only a picture" src="d"></p><input type="submit" value="Send it"><input type="text" value="stays" placeholder="Your
name"><textarea aria-label="A text">stays</textarea><p translate="no" title="stays">stays</p><p class=" title='stays'">One</p>
</body></html>"""  # noqa: E501


def _attributes(text: str) -> list[tuple[str, str, str]]:
    root = html5lib.parse(text, namespaceHTMLElements=False)
    return [(one.tag, name, value) for one in root.iter() for name, value in one.attrib.items()]


def test_attributes_with_text_are_translated() -> None:
    def quoted(text: str) -> str:
        return " ".join(f"{word}'\"<" for word in text.split())

    result = translate_html(WordTranslator(quoted, reverse=False), _ATTRIBUTES)
    before, after = _attributes(_ATTRIBUTES), _attributes(result.text)
    texts = {
        *(("meta", "About our house"), ("body", 'Ann\'s "page"'), ("img", "dog"), ("img", "A dog & a cat")),
        *(("a", "Go there"), ("img", "Only a picture"), ("input", "Send it"), ("input", "Your\nname")),
        ("textarea", "A text"),
    }
    expected = [
        (tag, name, quoted(value) if (tag, value) in texts else " ".join(value.split()))
        for tag, name, value in before
    ]
    assert [(tag, name, " ".join(value.split())) for tag, name, value in after] == expected
    assert len(texts) == sum(one != other for one, other in zip(before, after, strict=True))
    assert {one.place for one in result.segments} >= {"line 1, content", "line 3, alt", "line 4, placeholder"}
    assert translate_html(FunctionTranslator(), _ATTRIBUTES).text == _ATTRIBUTES


def test_attributes_move_with_their_tags() -> None:
    page = '<p>One <b title="the big word">two</b> <img alt="a dog"> three</p>'
    result = translate_html(WordTranslator(), page)
    assert result.text == '<p>THREE <b title="WORD BIG THE">TWO</b><img alt="DOG A"> ONE</p>'


_XLIFF = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en" target-language="de" datatype="plaintext" original="a"><body>
<trans-unit id="1">
  <source>A <g id="1">red</g> house<x id="2"/></source>
</trans-unit>
<trans-unit id="2"><source>Done</source><target state="final">Fertig</target></trans-unit>
<trans-unit id="3" translate="no"><source>Acme</source></trans-unit>
<trans-unit id="4"><source>Known text</source><target/></trans-unit>
<trans-unit id="5"><source>Copy</source><target state="needs-translation">Copy</target></trans-unit>
</body></file></xliff>
"""


def test_targets_of_xliff_1() -> None:
    memory = TranslationMemory([("Known  text", "Bekannter Text"), ("A red horse", "Ein rotes Pferd")])
    options = DocumentOptions("xliff", memory=memory)
    result = translate_document(WordTranslator(), _XLIFF, options)
    units = xliff1.xlifffile.parsestring(result.to_bytes()).units
    assert [str(unit.target) for unit in units] == [
        *("HOUSE RED A", "Fertig", "None", "Bekannter Text", "COPY")
    ]
    assert 'state-qualifier="mt-suggestion">HOUSE <g id="1">RED</g> A<x id="2"/></target>' in result.text
    assert '<target state="translated" state-qualifier="exact-match">Bekannter Text</target>' in result.text
    assert [(one.reason, one.place) for one in result.kept] == [("final", "2"), ("translate=no", "3")]
    assert [round(one.match.similarity) for one in result.segments if one.match] == [91, 100]


@pytest.mark.parametrize(
    ("format", "document"),
    [
        ("xliff", _XLIFF),
        ("xliff", '<xliff version="2.0" srcLang="en-US" trgLang="de-AT"><file id="f"/></xliff>'),
        ("po", 'msgid ""\nmsgstr "Language: de\\nX-Source-Language: en\\n"\n'),
    ],
)
def test_the_languages_of_a_document_must_be_those_of_the_translation(format: str, document: str) -> None:
    for source, target in (("en", "de"), ("en", ""), ("", "de"), ("", "")):
        DocumentOptions(format, language=source, target_language=target).parse(document)
    for source, target in (("en", "fr"), ("fr", "de")):
        with pytest.raises(SeqloomError, match=rf"from en\S* to de\S*, not from {source} to {target}"):
            DocumentOptions(format, language=source, target_language=target).parse(document, "a")
    template = document.replace('"de"', '"en"').replace('"de-AT"', '"en"').replace(": de", ": en")
    DocumentOptions(format, language="en", target_language="fr").parse(template)


def test_segments_of_xliff_2_have_a_state() -> None:
    text = (
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en"><file id="f">'
        '<unit id="u"><segment id="s" state="initial"><source>One <pc id="1">two</pc></source></segment>'
        "<ignorable><source> </source></ignorable></unit></file></xliff>"
    )
    result = translate_document(WordTranslator(), text, DocumentOptions("xliff"))
    assert '<segment id="s" state="translated"><source>One <pc id="1">two</pc></source>' in result.text
    assert '<target><pc id="1">TWO</pc> ONE</target></segment>' in result.text
    (unit,) = xliff2.Xliff2File.parsestring(result.to_bytes()).units
    assert (str(unit.source), str(unit.target)) == ("One two", "TWO ONE")
    flagged = translate_document(FunctionTranslator(lambda request: ""), text, DocumentOptions("xliff"))
    assert 'state="initial" subState="seqloom:review"' in flagged.text
    assert [one.place for one in result.segments] == ["u.s"]


def test_random_files_are_valid_and_keep_their_sources() -> None:
    random = Random(9)
    for _ in range(60):
        text = xliff(random)
        result = translate_document(WordTranslator(), text, DocumentOptions("xliff", overwrite=True))
        before, after = (etree.fromstring(one.encode()) for one in (text, result.text))
        sources = [
            [etree.tostring(one, with_tail=False) for one in root.iter("{*}source", "{*}note")]
            for root in (before, after)
        ]
        assert sources[0] == sources[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid XML"),
        ("<xliff>", "not valid XML"),
        ("<html/>", "not XLIFF"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><xliff>&a;</xliff>', "entities"),
        ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><xliff/>', "entities"),
        ("<xliff>" + "<g>" * 5000, "not valid XML"),
    ],
)
def test_hostile_xliff(text: str, message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        DocumentOptions("xliff").parse(text, "a.xlf")
