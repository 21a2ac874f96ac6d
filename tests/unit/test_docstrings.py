from __future__ import annotations

import json
from pathlib import Path

import pytest

import seqloom.docstrings as module
from seqloom.docstrings import DocstringCounts, DocstringPair, collect, make_docstrings, split_by_package
from seqloom.errors import SeqloomError
from support.commands import run_command

BODY = "It reads every line of the file once, and it counts the words that occur in {} of them."
FILE = '''
raise RuntimeError("parsed, not imported")

def count(path):
    """Count the words of a file.

    {body}

    Parameters
    ----------
    path : where the file is
    """
'''


def write(folder: Path, name: str, text: str) -> tuple[str, Path]:
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return name, path


def test_sections_are_cut_and_duplicates_and_broken_files_are_counted(tmp_path: Path) -> None:
    body = BODY.format("many")
    files = [
        write(tmp_path, "a", FILE.format(body=body)),
        write(tmp_path, "b", FILE.format(body=body.upper())),
        write(tmp_path, "c", FILE.format(body=f"{body} Then it stops.")),
        write(tmp_path, "d", "def broken(:"),
        write(tmp_path, "e", '"""Only a summary without a description."""'),
    ]
    counts = DocstringCounts()
    assert collect(files, counts) == [DocstringPair(body, "Count the words of a file.", "a")]
    assert (counts.files, counts.unreadable, counts.docstrings) == (5, 1, 4)
    assert (counts.unsuitable, counts.duplicates, counts.near_duplicates) == (1, 1, 1)


def test_no_package_is_in_two_parts_and_all_pairs_are_kept() -> None:
    pairs = [DocstringPair(f"{i}", "s", f"package-{i % 40}") for i in range(400)]
    parts = split_by_package(pairs, seed=1)
    packages = [{pair.package for pair in part} for part in parts.values()]
    assert sum(map(len, packages)) == 40 == len(set().union(*packages))
    assert sorted(pair for part in parts.values() for pair in part) == sorted(pairs)
    assert [len(parts[name]) for name in ("train", "valid", "test")] == [320, 40, 40]
    assert split_by_package(pairs, seed=1) == parts != split_by_package(pairs, seed=2)
    assert sum(map(len, split_by_package(pairs, seed=1, count=300).values())) == 300


def test_too_few_packages_are_an_error() -> None:
    with pytest.raises(SeqloomError, match="too few"):
        split_by_package([DocstringPair("d", "s", "only")] * 3, seed=1)


def test_the_folder_has_tables_and_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay", "koi", "lynx")
    texts = [" ".join(f"{name}{i}" for i in range(20)) for name in names]
    files = [write(tmp_path, name, FILE.format(body=text)) for name, text in zip(names, texts, strict=True)]
    monkeypatch.setattr(module, "installed_files", lambda: iter(files))
    counts = make_docstrings(tmp_path / "out", seed=1)
    lines = [len((tmp_path / "out" / f"{part}.tsv").read_text().splitlines()) for part in module.PARTS]
    assert lines == [10, 1, 1] == [found.total() for found in counts.parts.values()]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["docstrings"] == 12 and "12 docstrings" in counts.summary()


def test_a_folder_is_required() -> None:
    result = run_command("data", "make", "docstrings")
    assert result.code == 2 and "--out" in result.err
