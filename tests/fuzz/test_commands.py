"""Commands on damaged input: one output per line, or exit code 1 or 2 and one error message; no leftovers."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli.main import main
from support.commands import run_command as run


def sentence(code: int, out: str, err: str) -> None:
    """Check the output of a failed command."""
    assert code in (1, 2)
    assert "Traceback" not in err
    assert out == ""
    if "Usage:" not in err:
        lines = err.splitlines()
        assert sum(line.startswith("error: ") for line in lines) == 1
        assert all(line.isprintable() for line in lines)


SHORT = ("--set", "search.longest=20")  # a model trained for four steps rarely generates EOS
LINES = b"1 2\n\n3 4 5\n"
TABLE = b"1 2\t1\n3 4\t3\n"


def test_translate_standard_input(runs: Path, fuzz: Any, damage: Any) -> None:
    def check(content: bytes) -> None:
        code, out, err = run("translate", runs / "transformer", *SHORT, given=content)
        if code:
            sentence(code, out, err)
        else:
            assert out.count("\n") == content.count(b"\n") + (content[-1:] not in (b"\n", b""))

    fuzz(damage(LINES), check, cost=10)


@pytest.mark.parametrize("suffix", ["txt", "tsv", "jsonl", "csv"])
def test_translate_a_file(suffix: str, runs: Path, tmp_path: Path, fuzz: Any, damage: Any) -> None:
    valid = {"txt": LINES, "tsv": TABLE, "csv": b'1 2,"1"\n', "jsonl": b'{"source": "1 2"}\n'}[suffix]
    given, out = tmp_path / f"given.{suffix}", tmp_path / "out.jsonl"

    def check(content: bytes) -> None:
        given.write_bytes(content)
        out.unlink(missing_ok=True)
        code, *printed = run("translate", runs / "transformer", given, *SHORT, "--json", "--out", out)
        if code:
            sentence(code, *printed)
        else:
            numbers = [json.loads(line)["line"] for line in out.read_text().split("\n")[:-1]]
            assert numbers == list(range(1, len(numbers) + 1))
        assert {path.name for path in tmp_path.iterdir()} <= {given.name} | ({out.name} if code == 0 else set())

    fuzz(damage(valid), check, cost=10)


@pytest.mark.parametrize(("command", "model"), [("score", "transformer"), ("score", "mlm"), ("fill", "mlm")])
def test_other_standard_input(command: str, model: str, runs: Path, fuzz: Any, damage: Any) -> None:
    valid = {"transformer": TABLE, "mlm": b"1 [MASK] 2\n[MASK] 1\n"}[model]
    options = ["-"] if command == "score" else []

    def check(content: bytes) -> None:
        code, out, err = run(command, runs / model, *options, "--json", given=content)
        if code:
            sentence(code, out, err)
        else:
            for line in out.split("\n") if command == "fill" else [out]:
                json.loads(line or "{}")

    fuzz(damage(valid), check, cost=10)


@pytest.mark.parametrize("command", ["info", "doctor"])
def test_inspection_of_damaged_runs(command: str, runs: Path, tmp_path: Path, fuzz: Any, damage: Any) -> None:
    folder = Path(shutil.copytree(runs / "transformer", tmp_path / "run", symlinks=True))
    file = folder / ("metrics.jsonl" if command == "info" else "data-report.json")

    def check(content: bytes) -> None:
        file.write_bytes(content)
        code, out, err = run(command, folder, "--json")
        if code:
            sentence(code, out, err)
        else:
            json.loads(out)

    fuzz(damage(file.read_bytes()), check, cost=5)


def test_recipes(tmp_path: Path, fuzz: Any, damage: Any) -> None:
    valid = b"data: {train: [nowhere.tsv]}\nmodel: {name: lstm-dot, size: tiny}\ntrain: {max_steps: 2}\n"

    def check(content: bytes) -> None:
        (tmp_path / "recipe.yaml").write_bytes(content)
        sentence(*run("train", "--config", tmp_path / "recipe.yaml", "--out", tmp_path / "new"))
        assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]

    fuzz(damage(valid), check, cost=5)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_out_of_memory(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise error

    monkeypatch.setattr("seqloom.cli.main.app", refuse)
    code, out, err = run("info")
    sentence(code, out, err)
    assert "Not enough memory" in err
    monkeypatch.setattr(error, "args", ("a bug of ours",))
    if isinstance(error, RuntimeError):
        with pytest.raises(RuntimeError, match="a bug of ours"):
            run("info")


def test_a_name_that_the_terminal_cannot_encode(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(runs / "transformer", tmp_path / "b\udcff漢", symlinks=True)
    monkeypatch.setattr(sys, "argv", ["seqloom", "info", str(folder)])
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    with pytest.raises(SystemExit) as ended:
        main()
    sys.stdout.flush()
    assert not ended.value.code
    assert rb"b\udcff\u6f22" in sys.stdout.buffer.getvalue()  # type: ignore[attr-defined]
