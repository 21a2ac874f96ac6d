"""The corpus of gettext catalogues, from packages that the tests install in a folder."""

from __future__ import annotations

import json
from importlib.metadata import Distribution
from pathlib import Path

import polib
import pytest

import seqloom.gettext_corpus as module
from seqloom.errors import SeqloomError
from seqloom.gettext_corpus import GettextCounts, catalogues, choose_catalogues, collect, licence, make_gettext
from seqloom.languages import LanguagePair
from support.commands import run_command

EN_DE = LanguagePair("en", "de")


def catalogue(language: str, *entries: polib.POEntry) -> polib.POFile:
    file = polib.POFile()
    file.metadata = {"Content-Type": "text/plain; charset=utf-8", "Language": language}
    file += entries
    return file


def words(first: int, count: int) -> list[polib.POEntry]:
    """Return entries with different words."""
    names = ["".join(chr(97 + int(digit)) for digit in str(i)) for i in range(first, first + count)]
    return [polib.POEntry(msgid=f"word {name}", msgstr=f"Wort {name}") for name in names]


def install(site: Path, name: str, files: dict[str, polib.POFile], metadata: str = "") -> Distribution:
    """Install a package with these catalogues."""
    for path, file in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (file.save if path.endswith(".po") else file.save_as_mofile)(str(site / path))
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}\n")
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in files))
    return Distribution.at(info)


@pytest.fixture
def packages(tmp_path: Path) -> list[Distribution]:
    noise = [
        polib.POEntry(msgid="fuzzy", msgstr="unscharf", flags=["fuzzy"]),
        polib.POEntry(msgid="word ba", msgstr="Wort ba"),
        polib.POEntry(msgid="Word %(n)d ba!", msgstr="Wort %(n)d ba!"),
        polib.POEntry(msgid="12 {n}", msgstr="12 {n}"),
    ]
    return [
        install(
            tmp_path,
            "web",
            {
                "web/a/locale/de/LC_MESSAGES/web.po": catalogue("de", *words(10, 80)),
                "web/a/locale/de/LC_MESSAGES/web.mo": catalogue("de", *words(5000, 3)),
                "web/a/locale/de_AT/LC_MESSAGES/web.po": catalogue("de_AT", *words(6000, 3)),
                "web/a/locale/fr/LC_MESSAGES/web.po": catalogue("fr", *words(7000, 3)),
                "web/b/locale/de/LC_MESSAGES/web.po": catalogue("de", *words(200, 10), *noise),
            },
            "License-Expression: BSD-3-Clause",
        ),
        install(
            tmp_path, "forms", {"forms/locale/de_DE/LC_MESSAGES/forms.mo": catalogue("de_DE", *words(300, 10))}
        ),
    ]


def test_one_catalogue_per_application_is_chosen(packages: list[Distribution]) -> None:
    found = [one for package in packages for one in catalogues(package)]
    chosen = {one.group: one.path.name for one in choose_catalogues(found, EN_DE, GettextCounts(""))}
    assert chosen == {"web/a": "web.po", "web/b": "web.po", "forms": "forms.mo"}
    austrian = choose_catalogues(found, LanguagePair("en", "de-AT"), GettextCounts(""))
    assert ["de_AT" in str(one.path) for one in austrian if one.group == "web/a"] == [True]


def test_duplicates_and_near_duplicates_are_dropped_and_counted(packages: list[Distribution]) -> None:
    counts = GettextCounts("en-de")
    found = [one for package in packages for one in catalogues(package)]
    pairs = collect(choose_catalogues(found, EN_DE, counts), EN_DE, counts)
    assert len(pairs) == 100
    assert (counts.units, counts.duplicates, counts.near_duplicates) == (104, 1, 2)
    assert dict(counts.skipped) == {"fuzzy or unapproved translation": 1}
    assert {pair.source.replace("word", "Wort") == pair.target for pair in pairs} == {True}


def test_catalogues_that_cannot_be_used_are_left_out_with_the_reason(tmp_path: Path) -> None:
    files = {
        "x/locale/de_DE/LC_MESSAGES/x.po": catalogue("de_DE", *words(1, 3)),
        "x/locale/de_CH/LC_MESSAGES/x.po": catalogue("de_CH", *words(1, 3)),
        "y/locale/de/LC_MESSAGES/y.mo": catalogue("de", *words(9, 3)),
        "z/locale/de/LC_MESSAGES/z.mo": catalogue("de", *words(9, 3)),
    }
    package = install(tmp_path, "web", files)
    (tmp_path / "y/locale/de/LC_MESSAGES/y.mo").write_bytes(b"")
    (tmp_path / "z/locale/de/LC_MESSAGES/z.mo").unlink()
    counts = GettextCounts("en-de")
    assert collect(choose_catalogues(catalogues(package), EN_DE, counts), EN_DE, counts) == []
    assert counts.left_out.keys() == {"x", "y"}
    assert "de-CH, de-DE" in counts.left_out["x"]
    assert "left out: y: " in counts.summary()


def test_files_and_report(
    packages: list[Distribution], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "distributions", lambda: packages)
    counts = make_gettext(tmp_path / "out", EN_DE, seed=1)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["packages"]["web"] == {"version": "1.0", "licence": "BSD-3-Clause"}
    groups = [set(report["parts"][part]) for part in ("train", "valid", "test")]
    assert sum(map(len, groups)) == 3 == len(set().union(*groups)), "no application is in two parts"
    lines = [(tmp_path / "out" / f"{part}.jsonl").read_text().splitlines() for part in counts.parts]
    assert sum(map(len, lines)) == 100
    assert json.loads(lines[0][0]).keys() == {"source", "target"}
    assert "web 1.0: BSD-3-Clause" in counts.summary()
    reverse = make_gettext(tmp_path / "reverse", LanguagePair("de", "en"), seed=1)
    assert reverse.parts == counts.parts
    first = json.loads((tmp_path / "reverse" / "train.jsonl").read_text().splitlines()[0])
    assert first["source"].startswith("Wort")
    monkeypatch.setattr(module, "distributions", list)
    with pytest.raises(SeqloomError, match="too few"):
        make_gettext(tmp_path / "none", EN_DE, seed=1)


@pytest.mark.parametrize(
    "metadata, expected",
    [
        ("License-Expression: MIT", "MIT"),
        ("Classifier: License :: OSI Approved :: BSD License", "BSD License"),
        ("License: Apache 2.0", "Apache 2.0"),
        ("License: " + "x" * 99, "x" * 59 + "…"),
        ("", "not stated"),
    ],
)
def test_the_licence_of_a_package(metadata: str, expected: str, tmp_path: Path) -> None:
    assert licence(install(tmp_path, "one", {}, metadata)) == expected


def test_wrong_options_are_errors(tmp_path: Path) -> None:
    for options, message in (
        (["gettext", "--out", str(tmp_path / "x")], "English and another language"),
        (["gettext", "--languages", "fr-de"], "English and another language"),
        (["gettext", "--languages", "en-de"], "several files"),
        (["copy", "--languages", "en-de"], "no languages"),
    ):
        result = run_command("data", "make", *options)
        assert result.code == 2
        assert message in result.err
