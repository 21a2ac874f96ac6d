"""`seqloom translate` of documents."""

from __future__ import annotations

import json
from pathlib import Path

import polib
import pytest

from support.commands import Command

_CATALOGUE = (
    'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    '# the first\nmsgid "a man is running ."\nmsgstr ""\n\nmsgid "a dog"\nmsgstr "ein Hund"\n\n'
    'msgid "%s"\nmsgstr ""\n'
)


def test_a_catalogue_is_translated(runs: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "in.po").write_text(_CATALOGUE)
    done = command("translate", runs / "pairs", tmp_path / "in.po", "--out", tmp_path / "out.po")
    assert done.code == 0, done.err
    assert done.out == ""
    assert "translated 1 segments; skipped: 1 translated, 1 no words" in done.err
    man, dog, _ = polib.pofile(str(tmp_path / "out.po"))
    alone = command("translate", runs / "pairs", given="a man is running .\n").out
    assert man.msgstr == alone.strip()
    assert (dog.msgstr, man.tcomment) == ("ein Hund", "the first")


def test_overwriting_and_a_summary_as_json(runs: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "in.po").write_text(_CATALOGUE)
    (tmp_path / "terms.tsv").write_text("dog\tzzzqqq\n")
    words = ("--overwrite", "--json", "--glossary", tmp_path / "terms.tsv", "--languages", "en-de", "--beam", 2)
    done = command("translate", runs / "pairs", tmp_path / "in.po", "--out", tmp_path / "out.po", *words)
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert summary["segments"] == 2
    assert summary["skipped"] == {"no words": 1}
    assert [(use["term"], use["used"] + use["missed"]) for use in summary["terms"]] == [("dog", 1)]


def test_the_suffix_matters_only_with_an_output_file(runs: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# a dog\n\na man . a dog .\n")
    lines = command("translate", runs / "pairs", tmp_path / "a.md", "--engine", "torch")
    assert len(lines.out.splitlines()) == 3
    done = command(
        "translate", runs / "pairs", tmp_path / "a.md", "--out", tmp_path / "b.md", "--engine", "torch"
    )
    assert done.code == 0, done.err
    assert (tmp_path / "b.md").read_text().startswith("# ")
    forced = command(
        *(
            "translate",
            runs / "pairs",
            "-",
            "--format",
            "paragraphs",
            "--out",
            tmp_path / "c.txt",
            "--split",
            "lines",
        ),
        given="a dog .\n\n\ta man .",
    )
    assert forced.code == 0, forced.err
    assert (tmp_path / "c.txt").read_text().count("\n") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a.po", "--out", "out.po", "--nbest", 2), "--nbest"),
        (("a.po", "--out", "out.po", "--sample"), "--sample"),
        (("a.po", "--out", "out.po", "--source-column", "1"), "--source-column"),
        (("a.po", "--out", "out.po", "--processes", 2), "--processes"),
        (("a.po", "--out", "out.po", "--protect", "names"), "names"),
        (("a.po", "--out", "out.po", "--split", "words"), "words"),
        (("a.po", "--out", "out.po", "--languages", "en"), "languages"),
        (("a.po", "--format", "json"), "--out"),
        (("a.txt", "--overwrite"), "--overwrite"),
        (("a.txt", "--protect", "number"), "--protect"),
        (("missing.po", "--out", "out.po"), "missing.po"),
        (("a.txt", "--format", "json", "--out", "out.json"), "a.txt"),
    ],
)
def test_wrong_options(
    runs: Path,
    command: Command,
    tmp_path: Path,
    words: tuple[object, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.po").write_text(_CATALOGUE)
    Path("a.txt").write_text("a dog\n")
    done = command("translate", runs / "pairs", *words)
    assert done.code == 2
    assert message in done.err
    assert not Path("out.po").exists()


def test_a_memory_and_a_report(runs: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>a <b>man</b> is running .</p><p>a dog</p>")
    (tmp_path / "memory.po").write_text('msgid "a dog"\nmsgstr "ein Hund"\n')
    words = ("--memory", tmp_path / "memory.po", "--report", tmp_path / "report.json", "--languages", "en-de")
    done = command("translate", runs / "pairs", tmp_path / "a.html", "--out", tmp_path / "b.html", *words)
    assert done.code == 0, done.err
    assert (tmp_path / "b.html").read_text().endswith("<p>ein Hund</p>")
    assert "memory: 1 equal" in done.err
    rows = json.loads((tmp_path / "report.json").read_text())["segments"]
    assert {row["source"] for row in rows} == {"a man is running .", "a dog"}
    (man,) = [row for row in rows if row["source"] != "a dog"]
    assert 0 < man["confidence"] <= 1
    assert man["alignment"]
    wrong = command(
        "translate", runs / "pairs", tmp_path / "a.html", "--out", tmp_path / "c.html", "--report", "r.md"
    )
    assert (wrong.code, "r.md" in wrong.err) == (2, True)
