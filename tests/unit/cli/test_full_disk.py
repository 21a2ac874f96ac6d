"""Writers of other libraries on a full disk: safetensors, CTranslate2, SentencePiece and gzip.

A limit on the size of files gives native code the same kind of error as a full disk, at any byte of its files.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.commands import Command

Limit = Callable[[int], None]
LIMITS = (0, 100, 1_000, 3_000, 10_000, 20_000, 1 << 30)
WRITERS: dict[str, tuple[tuple[str, ...], str]] = {
    "safetensors": (("export", "{run}", "--to", "hf-marian", "--out", "{out}"), "exportable"),
    "ctranslate2": (("export", "{run}", "--to", "ctranslate2", "--out", "{out}"), "exportable"),
    "gzip": (("export", "{run}", "--to", "arpa", "--out", "{out}"), "ngram"),
}


def _outcomes(command: Command, full_disk: Limit, words: list[str]) -> Iterator[tuple[int, Any]]:
    """Run a command under growing limits, until it succeeds."""
    for limit in LIMITS:
        full_disk(limit)
        done = command(*words)
        full_disk(LIMITS[-1])
        yield limit, done
        if done.code == 0:
            return


@pytest.mark.parametrize("writer", WRITERS)
def test_an_output_is_complete_or_absent(
    writer: str, runs: Path, command: Command, tmp_path: Path, full_disk: Limit
) -> None:
    if writer == "ctranslate2":
        pytest.importorskip("ctranslate2")
    words, run = WRITERS[writer]
    out = tmp_path / ("out.arpa.gz" if writer == "gzip" else "out")
    given = [word.format(run=runs / run, out=out) for word in words]
    failures = 0
    for limit, done in _outcomes(command, full_disk, given):
        if done.code:
            failures += 1
            assert (done.code, "cannot be written: File too large" in done.err) == (2, True), (limit, done.err)
            assert os.listdir(tmp_path) == [], limit
    assert failures and done.code == 0, done.err
    assert out.exists()


def test_a_run_whose_tokenizer_cannot_be_written_is_absent(
    command: Command, tmp_path: Path, full_disk: Limit
) -> None:
    (tmp_path / "text.txt").write_text("".join(f"word{n} word{n + 1}\n" for n in range(2000)))
    words = ["train", tmp_path / "text.txt", "--model", "ngram", "--set", "text.tokenizer=word", "--out"]
    assert command(*words, tmp_path / "complete").code == 0
    model = (tmp_path / "complete" / "tokenizer" / "joint.model").stat().st_size
    assert model > 2 * (tmp_path / "complete" / "config.yaml").stat().st_size
    full_disk(model - 1)
    done = command(*words, tmp_path / "out")
    assert done.code == 2 and f"{tmp_path / 'out'} cannot be written: File too large" in done.err
    assert sorted(os.listdir(tmp_path)) == ["complete", "text.txt"]


def test_a_shortlist_is_kept_when_the_new_one_cannot_be_written(
    runs: Path, command: Command, tmp_path: Path, full_disk: Limit
) -> None:
    run = Path(shutil.copytree(runs / "exportable", tmp_path / "run", symlinks=True))
    assert command("shortlist", run, "--translations", 1).code == 0
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    full_disk(100)
    done = command("shortlist", run, "--translations", 2)
    assert done.code == 2 and "shortlist cannot be written: File too large" in done.err
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


def test_a_model_that_cannot_be_converted_is_translated_by_torch(
    runs: Path, command: Command, tmp_path: Path, full_disk: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    full_disk(100)
    done = command("translate", runs / "exportable", "--beam", "1", "--json", given="a g\n")
    assert done.code == 0 and '"engine": "torch"' in done.out
    assert "cannot be written: File too large" in done.err
    assert os.listdir(tmp_path / "ctranslate2") == []


@pytest.mark.parametrize("to", ["hf-marian", "ctranslate2"])
def test_permissions_of_exported_files_follow_the_umask(
    to: str, runs: Path, command: Command, tmp_path: Path
) -> None:
    if to == "ctranslate2":
        pytest.importorskip("ctranslate2")
    before = os.umask(0o022)
    try:
        assert command("export", runs / "exportable", "--to", to, "--out", tmp_path / "out").code == 0
    finally:
        os.umask(before)
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o644}
