"""Translation units: files that translate-toolkit, polib and gettext write, languages, and damaged files."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import polib
import pytest
from translate.storage import po as toolkit_po
from translate.storage import tmx as toolkit_tmx
from translate.storage import ts2 as toolkit_ts
from translate.storage import xliff as toolkit_xliff
from translate.storage import xliff2 as toolkit_xliff2

from seqloom.data import readers, xml_stream
from seqloom.data.report import DataReport, ReportedLine
from seqloom.data.units.unit import (
    FUZZY,
    NOT_TRANSLATABLE,
    OBSOLETE,
    OTHER_LANGUAGES,
    OTHER_PLURAL,
    UNTRANSLATED,
)
from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair

PAIRS = [
    ("Open the file", "Datei öffnen"),
    ('Say "hello" <b>&amp; go</b>\n\tnow\\', 'Sag "hallo"\n'),
    ("%(n)d of {total} 𝄞", "%(n)d von {total} 𝄞"),
]
EN_DE = LanguagePair("en", "de")


def read(
    path: Path, languages: LanguagePair | None = None
) -> tuple[list[tuple[str, str | None]], dict[str, int]]:
    """Return the pairs of a file, and the number of other units by reason."""
    report = DataReport()
    pairs = [(e.source, e.target) for e in readers.read(str(path), languages=languages, report=report)]
    assert len(pairs) == report.kept
    return pairs, dict(report.counts)


def reported(path: Path, languages: LanguagePair | None = None) -> list[ReportedLine]:
    report = DataReport()
    list(readers.read(str(path), languages=languages, report=report))
    return report.lines


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def polib_catalogue() -> polib.POFile:
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=utf-8", "Language": "de"}
    catalogue += [polib.POEntry(msgid=source, msgstr=target) for source, target in PAIRS]
    return catalogue


def test_po_of_polib(tmp_path: Path) -> None:
    catalogue = polib_catalogue()
    catalogue.append(
        polib.POEntry(msgid="one", msgstr="eins", msgctxt="number", comment="A note", tcomment="x")
    )
    catalogue.append(
        polib.POEntry(
            msgid="%d file",
            msgid_plural="%d files",
            msgstr_plural={0: "%d plik", 1: "%d pliki", 2: "%d plików"},
        )
    )
    catalogue.append(
        polib.POEntry(msgid="fuzzy", msgstr="unscharf", flags=["python-format", "fuzzy"], previous_msgid="f")
    )
    catalogue.append(polib.POEntry(msgid="untranslated"))
    catalogue.append(polib.POEntry(msgid="old", msgstr="alt", obsolete=True))
    catalogue.append(polib.POEntry(msgid="old fuzzy", msgstr="alt", obsolete=True, flags=["fuzzy"]))
    catalogue.save(str(tmp_path / "a.po"))
    plural = [("%d file", "%d plik"), ("%d files", "%d plików")]
    assert read(tmp_path / "a.po", EN_DE) == (
        [*PAIRS, ("one", "eins"), *plural],
        {OTHER_PLURAL: 1, FUZZY: 1, UNTRANSLATED: 1, OBSOLETE: 2},
    )
    lines = (tmp_path / "a.po").read_text().splitlines()
    for line in reported(tmp_path / "a.po"):
        assert lines[line.line - 1].removeprefix("#~ ").startswith("msgid"), "the line of the entry"


def test_po_of_translate_toolkit(tmp_path: Path) -> None:
    store = toolkit_po.pofile()
    for source, target in PAIRS:
        store.addsourceunit(source).target = target
    store.addsourceunit("fuzzy").target = "unscharf"
    store.units[-1].markfuzzy()
    (tmp_path / "a.po").write_bytes(bytes(store))
    assert read(tmp_path / "a.po") == (PAIRS, {FUZZY: 1})


@pytest.mark.parametrize("charset", ["iso-8859-1", "windows-1252", "KOI8-R", "EUC-JP", "gb2312"])
def test_po_in_the_charset_of_its_header(charset: str, tmp_path: Path) -> None:
    word = {"KOI8-R": "Привет", "EUC-JP": "日本", "gb2312": "中国"}.get(charset, "Öl")
    text = (
        f'msgid ""\nmsgstr "Content-Type: text/plain; charset={charset}\\n"\n\nmsgid "oil"\nmsgstr "{word}"\n'
    )
    (tmp_path / "a.po").write_bytes(text.encode(charset))
    assert read(tmp_path / "a.po") == ([("oil", word)], {})
    (tmp_path / "b.po.gz").write_bytes(gzip.compress(text.encode(charset)))
    assert read(tmp_path / "b.po.gz") == ([("oil", word)], {})


@pytest.mark.parametrize(
    "entry",
    [
        'msgid "a\nmsgstr "b"',
        'msgid "a"',
        'msgstr "b"',
        'msgid "a" x\nmsgstr "b"',
        'msgid "a"b"\nmsgstr "b"',
        '"a"',
        'msgid "a"\nmsgid_plural "c"',
        'msgid "a"\nmsgstr "b"\nmsgstr "c"',
        'msgid "a\\"\nmsgstr "b"',
        "gibberish",
    ],
)
def test_malformed_po_entries_are_reported_and_the_others_read(entry: str, tmp_path: Path) -> None:
    path = put(tmp_path / "a.po", f'msgid "x"\nmsgstr "y"\n\n{entry}\n\nmsgid "u"\nmsgstr "v"\n')
    assert read(path) == ([("x", "y"), ("u", "v")], {"malformed PO entry": 1})
    assert reported(path)[0].line == 4


def test_mo_of_polib(tmp_path: Path) -> None:
    catalogue = polib_catalogue()
    catalogue.append(polib.POEntry(msgid="a day", msgid_plural="days", msgstr_plural={0: "ein Tag", 1: "Tage"}))
    catalogue.append(polib.POEntry(msgid="one", msgstr="eins", msgctxt="number"))
    catalogue.save_as_mofile(str(tmp_path / "a.mo"))
    pairs, counts = read(tmp_path / "a.mo", EN_DE)
    assert sorted(pairs) == sorted([*PAIRS, ("a day", "ein Tag"), ("days", "Tage"), ("one", "eins")])
    assert counts == {}


def toolkit_memory(path: Path) -> Path:
    memory = toolkit_tmx.tmxfile()
    for source, target in PAIRS:
        memory.addtranslation(source, "en", target, "de")
    path.write_bytes(bytes(memory))
    return path


def test_tmx_of_translate_toolkit(tmp_path: Path) -> None:
    path = toolkit_memory(tmp_path / "a.tmx")
    assert read(path, EN_DE) == (PAIRS, {})
    assert read(path) == (PAIRS, {}), "the source language is in the header, and there is one other"
    assert read(path, EN_DE.reverse)[0] == [(target, source) for source, target in PAIRS]
    (tmp_path / "b.tmx.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert read(tmp_path / "b.tmx.gz", EN_DE) == (PAIRS, {})
    utf16 = path.read_text("utf-8").replace("utf-8", "utf-16").encode("utf-16")
    (tmp_path / "c.tmx").write_bytes(utf16)
    assert read(tmp_path / "c.tmx", EN_DE) == (PAIRS, {})


def tmx(*units: str, source: str = "en") -> str:
    body = "\n".join(f"<tu>{unit}</tu>" for unit in units)
    return f'<tmx version="1.4"><header srclang="{source}"/><body>\n{body}\n</body></tmx>'


def tuv(**texts: str) -> str:
    return "".join(
        f'<tuv xml:lang="{code.replace("_", "-")}"><seg>{text}</seg></tuv>' for code, text in texts.items()
    )


def test_variants_of_languages(tmp_path: Path) -> None:
    path = put(
        tmp_path / "a.tmx",
        tmx(tuv(en_us="a", pt_br="b", pt="c"), tuv(EN_US="d", pt="e"), tuv(en_us="f", pt_br="")),
    )
    assert read(path, LanguagePair("en", "pt-BR")) == ([("a", "b")], {"unit without pt-BR": 1, UNTRANSLATED: 1})
    assert read(path, LanguagePair("en-US", "pt"))[0] == [("a", "c"), ("d", "e")]
    assert read(path, LanguagePair("en", "pt-PT"))[0] == [("a", "c"), ("d", "e")], "pt is the more general one"
    for absent in (LanguagePair("en", "fr"), LanguagePair("en-GB", "pt")):
        assert read(path, absent) == ([], {OTHER_LANGUAGES: 3})
    put(path, tmx(tuv(en_US="a", de="b"), tuv(en_GB="a", de="b")))
    with pytest.raises(SeqloomError, match="several variants of en: en-GB, en-US"):
        read(path, EN_DE)
    with pytest.raises(SeqloomError, match=r"de, en-GB, en-US.*not given"):
        read(put(path, tmx(tuv(en_US="a", de="b"), tuv(en_GB="a", de="b"), source="*all*")))
    assert reported(put(path, tmx(tuv(en="a", de="b"), tuv(de="c"))), EN_DE)[0].line == 3


def bilingual(folder: Path, source: str, target: str) -> list[Path]:
    """Return a file of every format that names its languages, with one pair."""
    codes = f'source-language="{source}" target-language="{target}"'
    unit = '<trans-unit id="1"><source>a</source><target>b</target></trans-unit>'
    files = [put(folder / "a.xlf", xliff(unit, languages=codes))]
    message = "<context><message><source>a</source><translation>b</translation></message></context>"
    files.append(put(folder / "a.ts", f'<TS language="{target}" sourcelanguage="{source}">{message}</TS>'))
    catalogue = polib.POFile()
    catalogue.metadata = {"Language": target.replace("-", "_"), "X-Source-Language": source}
    catalogue.append(polib.POEntry(msgid="a", msgstr="b"))
    catalogue.save(str(folder / "a.po"))
    catalogue.save_as_mofile(str(folder / "a.mo"))
    return [*files, folder / "a.po", folder / "a.mo"]


@pytest.mark.parametrize(
    "own, wanted, way",
    [
        ("en-US,pt-BR", "en-pt", 1),
        ("en,pt", "en-GB,pt-BR", 1),
        ("en,pt-PT", "en,pt-BR", 0),
        ("en,zh-TW", "en,zh-Hant", 1),
        ("en,zh-CN", "en,zh-Hant", 0),
        ("en,en-GB", "en-GB,en", -1),
        ("de,en-GB", "en-de", -1),
    ],
)
def test_all_formats_match_languages_by_the_same_rule(own: str, wanted: str, way: int, tmp_path: Path) -> None:
    mine, asked = LanguagePair.parse(own), LanguagePair.parse(wanted)
    memory = put(tmp_path / "a.tmx", tmx(tuv(**{mine.source: "a", mine.target: "b"})))
    expected: list[tuple[str, str | None]] = [[], [("a", "b")], [("b", "a")]][way]  # type: ignore[assignment]
    for path in (memory, *bilingual(tmp_path, *mine)):
        if path == memory and mine.target == "en-GB" and mine.source == "en":
            continue  # a memory has no direction
        assert read(path, asked)[0] == expected, path.suffix


def test_the_error_for_absent_languages_names_those_of_the_file(tmp_path: Path) -> None:
    memory = put(tmp_path / "a.tmx", tmx(tuv(en="a", pt="b")))
    for path in (memory, *bilingual(tmp_path, "en", "pt")):
        report = DataReport()
        assert not list(readers.read(str(path), languages=EN_DE, report=report))
        with pytest.raises(SeqloomError, match=r"Languages of the files: en(,| to) pt\."):
            report.raise_if_mostly_dropped()
        with pytest.raises(SeqloomError, match=r"Languages of the files: en(,| to) pt\."):
            list(readers.read_source(str(path), languages=EN_DE, report=DataReport()))


def test_several_translations_of_a_unit_are_several_pairs(tmp_path: Path) -> None:
    path = put(tmp_path / "a.tmx", tmx(tuv(en="a", de="b") + tuv(de="c") + tuv(en="d")))
    assert read(path, EN_DE) == ([("a", "b"), ("a", "c"), ("d", "b")], {})


def test_inline_elements_become_placeholders_with_equal_numbers(tmp_path: Path) -> None:
    source = 'Press <bpt i="7" x="3">{\\b </bpt>OK<ept i="7">}</ept> or <ph x="9"/> <hi>now</hi>.'
    target = 'Mit <ph x="9"/> oder <bpt i="1" x="3"/>OK<ept i="1"/>.'
    path = put(tmp_path / "a.tmx", tmx(tuv(en=source, de=target)))
    assert read(path, EN_DE)[0] == [
        ('Press <g id="1">OK</g> or <x id="2"/> <g id="3">now</g>.', 'Mit <x id="2"/> oder <g id="1">OK</g>.')
    ]


def xliff(
    units: str, version: str = "1.2", languages: str = 'source-language="en-US" target-language="de"'
) -> str:
    return (
        f'<xliff version="{version}" xmlns="urn:oasis:names:tc:xliff:document:{version}">'
        f'<file original="a" datatype="plaintext" {languages}><body><group>\n{units}\n'
        "</group></body></file></xliff>"
    )


def test_xliff_of_translate_toolkit(tmp_path: Path) -> None:
    store = toolkit_xliff.xlifffile()
    store.setsourcelanguage("en")
    store.settargetlanguage("de")
    for source, target in PAIRS:
        store.addsourceunit(source).settarget(target, "de")
    store.addsourceunit("fuzzy").target = "unscharf"
    store.units[-1].markfuzzy()
    store.addsourceunit("untranslated")
    (tmp_path / "a.xlf").write_bytes(bytes(store))
    assert read(tmp_path / "a.xlf", EN_DE) == (PAIRS, {FUZZY: 1, UNTRANSLATED: 1})
    assert read(tmp_path / "a.xlf", EN_DE.reverse)[0] == [(target, source) for source, target in PAIRS]
    assert read(tmp_path / "a.xlf", LanguagePair("en", "fr")) == ([], {OTHER_LANGUAGES: 5})


def test_xliff_2_of_translate_toolkit(tmp_path: Path) -> None:
    store = toolkit_xliff2.Xliff2File()
    store.setsourcelanguage("en")
    store.settargetlanguage("de")
    for source, target in PAIRS:
        store.addsourceunit(source).target = target
    store.addsourceunit("untranslated")
    (tmp_path / "a.xlf").write_bytes(bytes(store))
    assert read(tmp_path / "a.xlf", EN_DE) == (PAIRS, {UNTRANSLATED: 1})


def test_states_and_segments_of_xliff(tmp_path: Path) -> None:
    units = """
    <trans-unit id="1" translate="no"><source>a</source><target>b</target></trans-unit>
    <trans-unit id="2" approved="no"><source>a</source><target>b</target></trans-unit>
    <trans-unit id="3"><source>a</source><target state="needs-translation">a</target></trans-unit>
    <trans-unit id="4"><source>a</source><target state-qualifier="leveraged-mt">b</target></trans-unit>
    <trans-unit id="5"><source>One. Two.</source>
      <seg-source><mrk mtype="seg" mid="1">One.</mrk>
      <mrk mtype="seg" mid="2">Two<x id="8"/>.</mrk></seg-source>
      <target><mrk mtype="seg" mid="2"><x id="8"/>Zwei.</mrk>
      <mrk mtype="seg" mid="1">Eins.</mrk></target></trans-unit>
    <trans-unit id="6"><source>a <mrk mtype="x-term">b</mrk></source><target>c</target>
      <alt-trans><source>not</source><target>this</target></alt-trans></trans-unit>
    <trans-unit id="7"><target>c</target></trans-unit>"""
    path = put(tmp_path / "a.xliff", xliff(units))
    assert read(path, EN_DE) == (
        [("One.", "Eins."), ('Two<x id="1"/>.', '<x id="1"/>Zwei.'), ("a b", "c")],
        {NOT_TRANSLATABLE: 1, FUZZY: 3, "unit without source": 1},
    )


def test_ts_of_translate_toolkit(tmp_path: Path) -> None:
    store = toolkit_ts.tsfile()
    store.settargetlanguage("de")
    for source, target in PAIRS:
        store.addsourceunit(source).target = target
    store.addsourceunit("fuzzy").target = "unscharf"
    store.units[-1].markfuzzy()
    (tmp_path / "a.ts").write_bytes(bytes(store))
    assert read(tmp_path / "a.ts", EN_DE) == (PAIRS, {FUZZY: 1})


def test_plural_forms_and_obsolete_messages_of_ts(tmp_path: Path) -> None:
    text = """<TS version="2.1" language="de_DE" sourcelanguage="en"><context><name>A</name>
    <message numerus="yes"><source>%n file(s)</source>
      <translation><numerusform>%n Datei</numerusform>
      <numerusform>%n Dateien</numerusform></translation></message>
    <message><source>a<byte value="x9"/>b</source><translation>c<byte value="9"/></translation></message>
    <message><source>d</source><translation type="vanished">e</translation></message>
    <message><source>f</source><translation type="unfinished"></translation></message>
    </context></TS>"""
    assert read(put(tmp_path / "a.ts", text), EN_DE) == (
        [("%n file(s)", "%n Dateien"), ("a\tb", "c\t")],
        {OTHER_PLURAL: 1, OBSOLETE: 1, UNTRANSLATED: 1},
    )


def test_a_half_translated_file_is_no_error_but_one_without_pairs_is(tmp_path: Path) -> None:
    path = put(tmp_path / "a.po", "".join(f'msgid "{i}"\nmsgstr ""\n\n' for i in range(9)))
    report = DataReport()
    assert list(readers.read(str(path), report=report)) == []
    with pytest.raises(SeqloomError, match=r"no pairs: 0 of 9 lines kept .9 untranslated unit"):
        report.raise_if_mostly_dropped()
    put(path, path.read_text() + 'msgid "a"\nmsgstr "b"\n')
    report = DataReport()
    assert len(list(readers.read(str(path), report=report))) == 1
    report.raise_if_mostly_dropped()


def test_sources_to_translate_are_all_texts_that_are_not_obsolete(tmp_path: Path) -> None:
    text = 'msgid "a"\nmsgstr ""\n\n'
    text += '#, fuzzy\nmsgid "b"\nmsgstr "x"\n\nmsgid "c"\nmsgstr "y"\n\n#~ msgid "d"\n#~ msgstr "z"\n'
    report = DataReport()
    sources = readers.read_source(str(put(tmp_path / "a.po", text)), report=report)
    assert [example.source for example in sources] == ["a", "b", "c"]


@pytest.mark.parametrize("path, code", [("x/locale/de/LC_MESSAGES/django.po", "de"), ("po/pt_BR.po", "pt-BR")])
def test_the_path_names_the_language_of_a_catalogue_without_header(
    path: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    file = put(tmp_path / path, 'msgid "a"\nmsgstr "b"\n')
    assert read(file, LanguagePair("en", code)) == ([("a", "b")], {})
    assert read(file, LanguagePair("en", "fr")) == ([], {OTHER_LANGUAGES: 1})


XXE = '<!DOCTYPE x [<!ENTITY e SYSTEM "file://{file}"> <!ENTITY a "aaaa">]>'
BOMB = "<!DOCTYPE x [<!ENTITY a0 'aaaaaaaaaa'>" + "".join(
    f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 10)
)


def hostile(secret: Path) -> Iterator[tuple[str, str]]:
    """Yield XML files that try to read another file or to exhaust the memory."""
    for head, reference in ((XXE.format(file=secret), "&e;"), (BOMB + "]>", "&a9;")):
        unit = f"<source>{reference}</source><target>{reference}</target>"
        yield "a.tmx", head + tmx(tuv(en=reference, de=reference))
        yield "a.tmx", head + f'<tmx><header/><body><tu x="{reference}"/></body></tmx>'
        yield "a.xlf", head + xliff(f"<trans-unit>{unit}</trans-unit>")
        yield "a.ts", head + f"<TS><context><message>{unit}</message></context></TS>"


def test_entities_are_refused(tmp_path: Path) -> None:
    secret = put(tmp_path / "secret", "password")
    for name, text in hostile(secret):
        path = put(tmp_path / name, text)
        with pytest.raises(SeqloomError, match=r"entit|not valid XML") as caught:
            read(path, EN_DE)
        assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "<tmx>" + "<a>" * 100_000,
        "<tmx><seg>" + "a" * (1 << 22),
        "<tmx>" + "<a/>" * (1 << 19),
        "<tmx " + "a" * (1 << 22) + "='1'>",
        "",
        "\x00",
        "<tmx><body><tu>",
        '<?xml version="1.0" encoding="nonsense"?><tmx/>',
    ],
    ids=["depth", "text", "siblings", "attribute", "empty", "binary", "truncated", "encoding"],
)
def test_extreme_xml_is_an_error_in_bounded_memory(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xml_stream, "UNIT_BYTES", 1 << 20)
    with pytest.raises(SeqloomError, match=r"not valid XML|without a unit"):
        read(put(tmp_path / "a.tmx", text), EN_DE)


def test_columns_of_a_memory_are_an_error(tmp_path: Path) -> None:
    path = toolkit_memory(tmp_path / "a.tmx")
    with pytest.raises(SeqloomError, match="not a table"):
        list(readers.read(str(path), source_column="1", report=DataReport()))
    with pytest.raises(SeqloomError, match="is a stream"):
        list(readers.read("-", format="tmx", report=DataReport()))
