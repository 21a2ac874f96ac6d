"""Hostile documents: seeded mutations of valid ones, and attacks on parsers written by hand."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from support.random_documents import DOCUMENTS

Attack = tuple[str, bytes]

_MARKS = b"<>&;\"'\\{}[]()*_`#-\n\r\t\x00\xff\xfe\xc3 !?/=%|"
_TOKENS = (
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"PK\x03\x04",
        b"\r",
        b"\x1b[2J",
        b"\xe2\x80\xae",
    ),
    *(b"<!DOCTYPE x>", b"<![CDATA[", b"]]>", b"<!--", b"-->", b"<?xml?>", b"&#0;", b"&#xD800;", b"&nope;"),
    *(
        b'"',
        b"\\",
        b"\\u",
        b"\\ud800",
        b"{",
        b"[",
        b"{n, plural, ",
        b"%(",
        b"```",
        b"</",
        b"<a b='",
        b"00:00 --> ",
    ),
    *(
        b"msgid ",
        b'msgstr[9] ""\n',
        b"#~ ",
        b"9" * 400,
        b"[" * 300,
        b"<b>" * 300,
        b"x" * 5000,
        "́".encode() * 500,
    ),
)
_OOXML = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
)


class Outside(NamedTuple):
    """What an attack tries to reach: a file to read, an address to call, and a file to create."""

    secret: str  # path
    address: str
    created: str  # path


def packed(files: dict[str, bytes]) -> bytes:
    """Return a ZIP file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return stream.getvalue()


class _Xml(NamedTuple):
    """Format in XML: text before and after the content of a sentence, and its file."""

    before: str
    after: str
    pack: Callable[[bytes], bytes] = bytes

    def file(self, text: str, *, head: str = "") -> bytes:
        return self.pack(f"{head}{self.before}{text}{self.after}".encode())

    @property
    def root(self) -> str:
        """Name of the first element."""
        return self.before[1:].split()[0].strip(">")


XML = {
    "xliff": _Xml(
        '<xliff version="1.2"><file source-language="en" target-language="de" datatype="x" original="y"><body>'
        '<trans-unit id="1"><source>One ',
        " two.</source></trans-unit></body></file></xliff>",
    ),
    "docx": _Xml(
        f"<w:document {_OOXML}><w:body><w:p><w:r><w:t>One ",
        " two.</w:t></w:r></w:p></w:body></w:document>",
        lambda content: packed({"[Content_Types].xml": b"<Types/>", "word/document.xml": content}),
    ),
    "odt": _Xml(
        f"<office:document-content {_ODF}><office:body><office:text><text:p>One ",
        " two.</text:p></office:text></office:body></office:document-content>",
        lambda content: packed({"mimetype": b"application/vnd.oasis", "content.xml": content}),
    ),
    "tmx": _Xml(
        '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>One ',
        '</seg></tuv><tuv xml:lang="de"><seg>Eins</seg></tuv></tu></body></tmx>',
    ),
    "ts": _Xml(
        '<TS version="2.1" language="de" sourcelanguage="en"><context><message><source>One ',
        "</source><translation>Eins</translation></message></context></TS>",
    ),
    "tbx": _Xml(
        '<martif type="TBX"><text><body><termEntry><langSet xml:lang="en"><tig><term>One ',
        '</term></tig></langSet><langSet xml:lang="de"><tig><term>Eins</term></tig></langSet></termEntry>'
        "</body></text></martif>",
    ),
}


def mutated(format: str, random: Random) -> bytes:
    """Return a valid document with up to six faults; in ZIP files also inside their parts."""
    if format not in XML or format == "xliff":
        return _with_faults(DOCUMENTS[format](random).encode() or b"a", random)
    text = DOCUMENTS["xliff"](random).partition("<source>")[2].partition("</source>")[0]
    content = _as_inline(text, format)
    if random.random() < 0.7:
        kind = XML[format]
        return kind._replace(pack=lambda part: kind.pack(_with_faults(part, random))).file(content)
    return _with_faults(XML[format].file(content), random)


def _as_inline(text: str, format: str) -> str:
    """Return a text with the inline tags of a format."""
    tags = {
        "docx": ("</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>", "</w:t></w:r><w:r><w:t>"),
        "odt": ("<text:span>", "</text:span>"),
    }
    opening, closing = tags.get(format, ("<g>", "</g>"))
    for tag in ('<g id="1">', '<pc id="1">', '<x id="2"/>', '<ph id="2"/>'):
        text = text.replace(tag, opening if tag.endswith('1">') else "")
    return text.replace("</g>", closing).replace("</pc>", closing)


def _with_faults(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randrange(1, 7)):
        place = random.randrange(len(changed) + 1)
        end = min(len(changed), place + random.randrange(1, 40))
        kind = random.randrange(6)
        if kind == 0:
            changed[place : place + 1] = random.choices(_MARKS)
        elif kind == 1:
            changed[place:place] = random.choice(_TOKENS)
        elif kind == 2:
            del changed[place:end]
        elif kind == 3:
            changed[place:place] = changed[place:end] * random.randrange(1, 30)
        elif kind == 4:
            other = random.randrange(len(changed) + 1)
            changed[other:other] = changed[place:end]
        elif random.random() < 0.3:
            del changed[place:]
    return bytes(changed)


def attacks(format: str, outside: Outside, size: int) -> Iterator[Attack]:
    """Yield attacks on a format with a name; `size` is the number of bytes of repeated parts."""
    if format in XML:
        yield from _xml_attacks(XML[format], outside, size)
    if format in ("docx", "odt"):
        yield from _zip_attacks(XML[format], size)
    yield from _OF_FORMAT.get(format, _none)(outside, size)
    if format not in ("docx", "odt"):
        yield from _encodings(format)
        for part in _REPEATED:
            yield f"repeated {part!r}", (part * (size // len(part))).encode()


def _none(outside: Outside, size: int) -> Iterator[Attack]:
    yield from ()


_REPEATED = (
    *(
        "<a ",
        "<",
        "<!--",
        '<a "',
        "&",
        "<b>",
        "</b>",
        "[",
        "](",
        "![",
        "*a",
        "_a ",
        "`",
        "> ",
        "- ",
        "{",
        '"',
        "\\",
    ),
    *(
        "\n",
        "\r",
        "\t",
        "\x00",
        "a\u0301",
        "\u202e",
        "{a, plural ",
        "{{",
        "%",
        "%(",
        "${",
        "a@",
        "www.",
        "1.",
        "http://",
    ),
    *(
        "<a b=c ",
        "a.a@a.",
        "A. ",
        "。",
        "|a",
        "1\n00:00:01,000 --> 00:00:02,000\na\n\n",
        "#~ ",
        'msgid "',
        "\ufeff",
    ),
)


def _encodings(format: str) -> Iterator[Attack]:
    valid = DOCUMENTS[format](Random(3)) if format in DOCUMENTS else XML[format].file("").decode()
    for encoding in ("utf-16", "utf-16-le", "utf-32", "utf-7", "cp1252", "shift_jis"):
        yield f"in {encoding}", f"{valid}é".encode(encoding, "replace")
    for name in ("utf-16", "base64", "zlib", "unicode_escape", "idna", "rot13", "nope", "utf-7"):
        yield f"declared as {name}", f'<?xml version="1.0" encoding="{name}"?>{valid}'.encode()
        yield f"a page in {name}", f'<meta charset="{name}">{valid}'.encode()
        yield f"a catalogue in {name}", f'msgid ""\nmsgstr "charset={name}\\n"\n\n{valid}'.encode()
    yield "half a character", f"{valid}é".encode()[:-1]
    yield "surrogates", f"{valid}\ud800".encode(errors="surrogatepass")


def _xml_attacks(kind: _Xml, outside: Outside, size: int) -> Iterator[Attack]:
    def declared(entities: str, text: str) -> bytes:
        return kind.file(text, head=f"<!DOCTYPE {kind.root} [{entities}]>")

    levels = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    yield "billion laughs", declared(f'<!ENTITY l0 "ha">{levels}', "&l11;")
    yield "quadratic blowup", declared(f'<!ENTITY a "{"a" * size}">', "&a;" * (size // 3))
    yield "recursive entity", declared('<!ENTITY a "&b;"><!ENTITY b "&a;">', "&a;")
    yield "entity in an attribute", declared('<!ENTITY a "secret">', '<g id="&a;"/>')
    for name, place in (("file", f"file://{outside.secret}"), ("network", outside.address)):
        yield f"external entity, {name}", declared(f'<!ENTITY a SYSTEM "{place}">', "&a;")
        yield f"public entity, {name}", declared(f'<!ENTITY a PUBLIC "x" "{place}">', "&a;")
        yield f"parameter entity, {name}", declared(f'<!ENTITY % a SYSTEM "{place}"> %a;', "")
        yield (
            f"unparsed entity, {name}",
            declared(f'<!NOTATION n SYSTEM "n"><!ENTITY a SYSTEM "{place}" NDATA n>', ""),
        )
        yield f"external DTD, {name}", kind.file("", head=f'<!DOCTYPE {kind.root} SYSTEM "{place}">')
        yield f"stylesheet, {name}", kind.file("", head=f'<?xml-stylesheet type="text/xsl" href="{place}"?>')
        include = f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" parse="text" href="{place}"/>'
        yield f"inclusion, {name}", kind.file(include)
        schema = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        yield f"schema, {name}", kind.file(f'<g {schema} xsi:noNamespaceSchemaLocation="{place}"/>')
    yield "undeclared entity", kind.file("&nope;")
    yield "deep", kind.file("<g>" * (size // 7) + "</g>" * (size // 7))
    yield "deep and open", kind.file("<g>" * (size // 3))
    yield "many empty tags", kind.file("<x/>" * (size // 4))
    yield "many pairs of tags", kind.file('<g id="1">a</g> ' * (size // 16))
    yield "many attributes", kind.file("<x " + _numbered('a{}=""', size // 8) + "/>")
    yield "many namespaces", kind.file("<x " + _numbered('xmlns:a{}="b"', size // 16) + "/>")
    yield "one long name", kind.file(f"<{'a' * size}/>")
    yield "one long attribute", kind.file(f'<x id="{"a" * size}"/>')
    yield "one long word", kind.file("a" * size)
    yield "same attribute twice", kind.file('<x id="1" id="2"/>')
    yield "undeclared prefix", kind.file("<no:x/>")
    yield "open comment", kind.file("<!-- ")
    yield "open section", kind.file("<![CDATA[ ")
    yield "a tag in a section", kind.file("<![CDATA[</source></w:t>]]>")
    yield "crossed tags", kind.file('<g id="1"><x></g></x>')
    for reference in ("&#0;", "&#8;", "&#xD800;", "&#x110000;", "&#99999999999;", "&#xFFFE;"):
        yield f"the character {reference}", kind.file(reference)
    yield "no text", kind.pack(b"")
    yield "only a head", kind.pack(b'<?xml version="1.0"?>')
    yield "a NUL", kind.file("\x00")
    yield "two roots", kind.pack(b"<a/><a/>")
    yield "in UTF-16", kind.pack('<?xml version="1.0" encoding="UTF-16"?><a/>'.encode("utf-16"))
    yield "in UTF-7", kind.pack(b'<?xml version="1.0" encoding="UTF-7"?>+ADw-a+AD4-')


def _numbered(form: str, count: int) -> str:
    return " ".join(form.format(i) for i in range(count))


def _zip_attacks(kind: _Xml, size: int) -> Iterator[Attack]:
    valid = kind.file("and")
    with zipfile.ZipFile(io.BytesIO(valid)) as file:
        files = {info.filename: file.read(info) for info in file.infolist()}
    (main,) = (name for name in files if name.endswith(("document.xml", "content.xml")))
    yield "empty", b""
    yield "cut", valid[:-30]
    yield "only the end", valid[-22:]
    yield "text before it", b"#!/bin/sh\ntouch /tmp/x\n" + valid
    yield "bomb", packed({**files, main: b" " * (1000 * size)})
    yield "bomb beside the text", packed({**files, "media/a.png": b"\0" * (1000 * size)})
    yield "archive in the archive", packed({**files, "a.zip": valid})
    yield "path upwards", packed({**files, "../../outside.xml": b"<a/>"})
    yield "absolute path", packed({**files, "/tmp/outside.xml": b"<a/>"})
    yield "no text", packed({"a.xml": b"<a/>"})
    yield "another compression", valid.replace(b"\x08\x00", b"\x63\x00")
    yield (
        "encrypted",
        valid.replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01").replace(
            b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"
        ),
    )
    place = valid.rfind(b"PK\x01\x02")
    for name, offset, value in (
        ("claims no bytes", 24, bytes(4)),
        ("claims 4 GB", 24, b"\xff" * 4),
        ("wrong checksum", 16, b"\1\2\3\4"),
        ("wrong place", 42, b"\xff\xff\xff\x7f"),
        ("place of the first file", 42, bytes(4)),
        ("name of 64 kB", 28, b"\xff\xff"),
    ):
        yield name, valid[: place + offset] + value + valid[place + offset + len(value) :]


def _text(outside: Outside, size: int) -> Iterator[Attack]:
    yield "fences of every length", " ".join("`" * i for i in range(1, int((2 * size) ** 0.5))).encode()
    yield "a word and many marks", ("a" + "\u0301" * (size // 2)).encode()
    yield "an open message in each line", ("{n, plural, one {\n" * (size // 18)).encode()
    yield "a long address", ("https://a.example/" + "a(" * (size // 2)).encode()
    yield "a long tag", ("<a " + "b=c " * (size // 4)).encode()
    yield "digits", b"1," * (size // 2)
    yield "directions", ("a \u202e\u2066 " * (size // 8)).encode()


def _json(outside: Outside, size: int) -> Iterator[Attack]:
    yield "deep", b"[" * size + b"]" * size
    yield "deep objects", b'{"a":' * (size // 5)
    yield "a number of many digits", b"[" + b"9" * size + b"]"
    yield "a large exponent", b"[1e999999999]"
    yield "not numbers", b"[NaN, Infinity, -Infinity]"
    yield "same key", b'{"a": "one", "a": "two", "__proto__": {"x": "y"}}'
    yield "half a surrogate", b'["\\ud800", "\\udc00\\ud800 words"]'
    yield "bad escape", b'["\\x41"]'
    yield "many keys", ("{" + ", ".join(f'"k{i}": "v"' for i in range(size // 12)) + "}").encode()
    yield "many escapes", ('["a ' + "\\u0041" * (size // 6) + '"]').encode()
    yield "many brackets", b"[" + b"[]," * (size // 3) + b"[]]"
    yield "a tag that loads", b'["!!python/object/apply:os.system [id]"]'


def _po(outside: Outside, size: int) -> Iterator[Attack]:
    entry = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    rules = (
        *(f"__import__('os').system('touch {outside.created}')", "n**n**n**n", "(" * 3000 + "n" + ")" * 3000),
        *(
            "n/0",
            "n%0",
            "n?" * 500,
            "lambda: 0",
            "n;import os",
            "99999999999999999999999*n",
            "n==1?0:1" * 100,
            "-n",
        ),
    )
    for rule in rules:
        head = f'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural={rule};\\n"\n\n'
        yield f"plural={rule[:20]}", (head + entry).encode()
    for count in ("0", "1", "99", "100000", "-1"):
        head = f'msgid ""\nmsgstr "Plural-Forms: nplurals={count}; plural=0;\\n"\n\n'
        yield f"{count} plural forms", (head + entry).encode()
    yield "many lines", ('msgid ""\n' + '"a \\n"\n' * (size // 7) + 'msgstr ""\n').encode()
    yield "a long text", f'msgid "{"a " * (size // 2)}"\nmsgstr ""\n'.encode()
    yield "many escapes", f'msgid "{chr(92) * 2 * (size // 2)}"\nmsgstr ""\n'.encode()
    yield "open escapes", ('msgid "' + '\\"' * (size // 2) + '\nmsgstr ""\n').encode()
    yield "form 999", b'msgid "a"\nmsgid_plural "b"\nmsgstr[999] ""\n'
    yield "no translation", b'msgid "a"\n'
    yield "twice", b'msgid "a"\nmsgstr ""\nmsgid "a"\nmsgstr ""\nmsgstr ""\n'
    yield "controls", b'msgid "\\x00\\x1b[2J\\377 a"\nmsgstr ""\n'


def _html(outside: Outside, size: int) -> Iterator[Attack]:
    for tag in (
        f'<iframe src="file://{outside.secret}">', f'<object data="{outside.address}">',
        f'<img src="{outside.address}" alt="a b">',
        f'<link rel="stylesheet" href="{outside.address}">', f'<base href="{outside.address}">',
        f'<!--#include file="{outside.secret}"-->', f'<?php system("touch {outside.created}") ?>',
        f'<meta http-equiv="refresh" content="0;url={outside.address}">', "<script>while(true){}</script>",
        f'<svg><script href="{outside.address}"/></svg>', "<plaintext>", "<img alt='a b' onerror='x()'>",
    ):  # fmt: skip
        yield tag[:24], f"<p>One {tag} two</p>".encode()
    yield "deep", b"<b>" * (size // 7) + b"a" + b"</b>" * (size // 7)
    yield "crossed", b"<b><i>a</b></i> " * (size // 16)
    yield "closed only", b"a</b> " * (size // 6)
    yield "many attributes", ("<p " + _numbered('a{} title="b"', size // 14) + ">a").encode()
    yield "many images", b'<img alt="a dog"> ' * (size // 18)
    yield "a long attribute", b'<p title="' + b"a " * (size // 2) + b'">a</p>'
    yield "an attribute in an attribute", b"<p class=\" title='a b'\" title='c d'>a</p>"
    yield "open quotes", b"<p title='a>b</p>" * (size // 17)
    yield "many skipped", b'<p translate="no">' * (size // 18)
    yield "open scripts", b"<script>" * (size // 8)
    yield "references", b"<p>&#0;&#xD800;&#x110000;&nope;&amp &lt" + b"&amp;" * (size // 5)


def _markdown(outside: Outside, size: int) -> Iterator[Attack]:
    yield "head", f"---\na: !!python/object/apply:os.system ['touch {outside.created}']\n---\nOne\n".encode()
    yield "open head", b"---\r\n" + b"a: b\r\n" * (size // 6)
    yield "image", f"![a]({outside.address}) ![b](file://{outside.secret})".encode()
    yield "wide table", b"|a" * (size // 4) + b"|\n" + b"|-" * (size // 4) + b"|\n"
    yield "references", (b"[a]: b\n" * (size // 14)) + b"[a] " * (size // 8)
    yield "nested links", b"[" * (size // 8) + b"a" + b"](b)" * (size // 8)
    yield "emphasis", b"*a **b " * (size // 7)
    yield "emphasis without end", b"a" + b"**" * (size // 2) + b"b"
    yield "deep quotes", b">" * size + b"a"
    yield "deep lists", "".join(f"{' ' * i}- a\n" for i in range(int((2 * size) ** 0.5))).encode()
    yield "open comments", b"<!-- a " * (size // 7)
    yield "open instructions", b"a <? " * (size // 5)
    yield "sections", b"a <![CDATA[ " * (size // 12)


def _subtitles(outside: Outside, size: int) -> Iterator[Attack]:
    head = b"1\n00:00:01,000 --> 00:00:02,000\n"
    yield "one long cue", head + b"a b\n" * (size // 4)
    yield "one long line", head + b"a " * (size // 2)
    yield "tags", head + b"<i>a</i> " * (size // 9)
    yield "open tags", head + b"<i>a " * (size // 5)
    yield "overrides", head + b"{\\an8}a " * (size // 8)
    yield "times", b"99999999:00:01,000 --> 00:00:02,000\na\n\n-1:00 --> 9\nb\n"
    yield "a timing in the text", head + b"a 00:00:01,000 --> 00:00:02,000 b\n00:00:01,000 --> 00:00:02,000\n"
    yield (
        "WebVTT",
        b"WEBVTT\nSTYLE\n::cue{background:url(x)}\n\nREGION\n\n00:01.000 --> 00:02.000\n<v &amp;>a &lt;\n",
    )


_OF_FORMAT: dict[str, Callable[[Outside, int], Iterator[Attack]]] = {
    "text": _text,
    "json": _json,
    "po": _po,
    "html": _html,
    "markdown": _markdown,
    "subtitles": _subtitles,
}
