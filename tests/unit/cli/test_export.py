"""`seqloom export`, and `seqloom translate` with what it wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.config import compose
from seqloom.pipeline import continue_run, create

Command = Callable[..., Any]
SETTINGS: dict[str, Any] = {
    "model.name": "transformer-postnorm",
    "model.size": "tiny",
    "model.width": 16,
    "model.heads": 2,
    "model.ffn": 16,
    "model.layers": 1,
    "text.tokenizer": "word",
    "text.byte_fallback": False,
    "train.max_steps": 2,
    "train.threads": 1,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run `run` and lines to translate."""
    folder = tmp_path_factory.mktemp("export")
    lines = [f"{a} {b}\t{b} {a.upper()}\n" for a in "abcdef" for b in "ghijk"]
    (folder / "pairs.tsv").write_text("".join(lines))
    (folder / "lines.txt").write_text("a g\n\nb h k\nc\n")
    values = {**SETTINGS, "data.train": str(folder / "pairs.tsv")}
    continue_run(create(compose(values=values), folder / "run", quiet=True), quiet=True)
    return folder


def answers(done: Any) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_what_is_exported_translates_as_the_run(folder: Path, command: Command, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    out = tmp_path / "fast"
    done = command(
        "export", folder / "run", "--to", "ctranslate2", "--out", out, "--verify", folder / "lines.txt"
    )
    assert done.code == 0, done.err
    first, greedy, *_, last = done.out.splitlines()
    assert first.startswith(f"exported: {out} (float32, ")
    assert greedy.startswith("  greedy: 3 of 3 answers equal, scores within ")
    assert last == f"  seqloom translate {out} FILE"
    wanted = ("--json", "--beam", "1", "--threads", "1")
    mine = answers(command("translate", folder / "run", folder / "lines.txt", "--engine", "torch", *wanted))
    for line in (
        answers(command("translate", out, folder / "lines.txt", *wanted)),
        answers(command("translate", folder / "run", folder / "lines.txt", *wanted)),
    ):
        assert {one["engine"] for one in line} == {"ctranslate2"}
        assert {one["engine"] for one in mine} == {"torch"}
        for a, b in zip(line, mine, strict=True):
            assert [h["tokens"] for h in a["hypotheses"]] == [h["tokens"] for h in b["hypotheses"]]
            expected = pytest.approx(b["hypotheses"][0]["token_log_probs"], abs=1e-4)
            assert a["hypotheses"][0]["token_log_probs"] == expected
    plain = command("translate", out, folder / "lines.txt", "--beam", "1").out.splitlines()
    assert plain == [one["hypotheses"][0]["text"] for one in mine]


@pytest.mark.parametrize("blocked", ["", "ctranslate2"])
def test_without_a_writable_cache_auto_uses_torch(
    blocked: str, folder: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in place of the folder: root may write anywhere else."""
    pytest.importorskip("ctranslate2")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "ctranslate2").write_text("")
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache" / blocked))
    asked = ("translate", folder / "run", folder / "lines.txt", "--json", "--beam", "1")
    done = command(*asked)
    assert {one["engine"] for one in answers(done)} == {"torch"}
    assert done.err.count("cannot be written") == 1 and "Using torch" in done.err
    refused = command(*asked, "--engine", "ctranslate2")
    assert (refused.code, "SEQLOOM_CACHE" in refused.err) == (2, True)


def test_marian_folders_are_written_too(folder: Path, command: Command, tmp_path: Path) -> None:
    done = command("export", folder / "run", "--to", "hf-marian", "--out", tmp_path / "marian")
    assert done.code == 0, done.err
    assert "compared with the run on the run's train data" in done.out
    assert (tmp_path / "marian/config.json").is_file()
    done = command(
        "export", folder / "run", "--to", "hf-marian", "--out", tmp_path / "x", "--quantization", "int8"
    )
    assert (done.code, "are float32, not int8" in done.err) == (2, True)


def test_mistakes(folder: Path, command: Command, tmp_path: Path) -> None:
    done = command("export", folder / "run", "--to", "onnx", "--out", tmp_path / "x")
    assert (done.code, "There is no format called 'onnx'" in done.err) == (2, True)
    done = command("export", folder / "none", "--out", tmp_path / "x")
    assert (done.code, "There is no run directory" in done.err) == (2, True)
    done = command("translate", folder / "run", folder / "lines.txt", "--engine", "fast")
    assert (done.code, "There is no engine called 'fast'" in done.err) == (2, True)
