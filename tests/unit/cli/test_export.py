"""`seqloom export`, and `seqloom translate` with its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import Command


def answers(done: Any) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_an_export_translates_like_the_run(runs: Path, command: Command, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    out = tmp_path / "fast"
    done = command(
        "export", runs / "exportable", "--to", "ctranslate2", "--out", out, "--verify", runs / "few-letters.txt"
    )
    assert done.code == 0, done.err
    first, greedy, *_, last = done.out.splitlines()
    assert first.startswith(f"exported: {out} (float32, ")
    assert greedy.startswith("  greedy: 3 of 3 outputs equal, scores differ by at most ")
    assert last == f"  seqloom translate {out} FILE"
    wanted = ("--json", "--beam", "1", "--threads", "1")
    given = (runs / "exportable", runs / "few-letters.txt")
    mine = answers(command("translate", *given, "--engine", "torch", *wanted))
    for line in (
        answers(command("translate", out, runs / "few-letters.txt", *wanted)),
        answers(command("translate", *given, *wanted)),
    ):
        assert {one["engine"] for one in line} == {"ctranslate2"}
        assert {one["engine"] for one in mine} == {"torch"}
        for a, b in zip(line, mine, strict=True):
            assert [h["tokens"] for h in a["hypotheses"]] == [h["tokens"] for h in b["hypotheses"]]
            expected = pytest.approx(b["hypotheses"][0]["token_log_probs"], abs=1e-4)
            assert a["hypotheses"][0]["token_log_probs"] == expected
    plain = command("translate", out, runs / "few-letters.txt", "--beam", "1").out.splitlines()
    assert plain == [one["hypotheses"][0]["text"] for one in mine]


@pytest.mark.parametrize("blocked", ["", "ctranslate2"])
def test_without_a_writable_cache_auto_uses_torch(
    blocked: str, runs: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in place of the exportable: root may write anywhere else."""
    pytest.importorskip("ctranslate2")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "ctranslate2").write_text("")
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache" / blocked))
    asked = ("translate", runs / "exportable", runs / "few-letters.txt", "--json", "--beam", "1")
    done = command(*asked)
    assert {one["engine"] for one in answers(done)} == {"torch"}
    assert done.err.count("cannot be written") == 1 and "Using torch" in done.err
    refused = command(*asked, "--engine", "ctranslate2")
    assert (refused.code, "SEQLOOM_CACHE" in refused.err) == (2, True)


def test_marian_folders_are_written(runs: Path, command: Command, tmp_path: Path) -> None:
    done = command("export", runs / "exportable", "--to", "hf-marian", "--out", tmp_path / "marian")
    assert done.code == 0, done.err
    assert "compared with the run on the run's train data" in done.out
    assert (tmp_path / "marian/config.json").is_file()
    done = command(
        "export", runs / "exportable", "--to", "hf-marian", "--out", tmp_path / "x", "--quantization", "int8"
    )
    assert (done.code, "--quantization int8" in done.err) == (2, True)


def test_export_errors(runs: Path, command: Command, tmp_path: Path) -> None:
    done = command("export", runs / "exportable", "--to", "onnx", "--out", tmp_path / "x")
    assert (done.code, "There is no format called 'onnx'" in done.err) == (2, True)
    done = command("export", runs / "none", "--out", tmp_path / "x")
    assert (done.code, "There is no run directory" in done.err) == (2, True)
    done = command("translate", runs / "exportable", runs / "few-letters.txt", "--engine", "fast")
    assert (done.code, "There is no engine called 'fast'" in done.err) == (2, True)
