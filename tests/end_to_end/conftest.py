"""A user's hands: a folder of data, one trained run, and the command line in a process or in this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from seqloom.cli.main import main

Start = Callable[..., "subprocess.Popen[str]"]
Process = Callable[..., "subprocess.CompletedProcess[str]"]

# Learns to copy up to ten digits in a few seconds on one core.
SMALL = {
    "text.tokenizer": "word",
    "text.byte_fallback": "false",
    "model.width": "64",
    "model.dropout": "0",
    "train.batch_tokens": "600",
    "train.learning_rate": "0.005",
    "train.warmup": "50",
    "train.schedule": "cosine",
    "train.label_smoothing": "0",
    "train.checkpoint_every": "200",
    "train.threads": "1",
}


@pytest.fixture(scope="session")
def options() -> Callable[..., list[str]]:
    """The --set flags of a small model, changed by further settings."""

    def flags(settings: dict[str, object] | None = None) -> list[str]:
        merged = {**SMALL, **(settings or {})}
        return [part for key, value in merged.items() for part in ("--set", f"{key}={value}")]

    return flags


@pytest.fixture(scope="session")
def start(_own_cache: None) -> Start:
    """Starts `python -m seqloom ...`; its output is piped."""

    def begin(*arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "seqloom", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    return begin


@pytest.fixture(scope="session")
def process(start: Start) -> Process:
    """Runs `python -m seqloom ...` to its end."""

    def run(*arguments: object, given: str = "") -> subprocess.CompletedProcess[str]:
        with start(*arguments) as begun:
            out, err = begun.communicate(given, timeout=1000)
        return subprocess.CompletedProcess(begun.args, begun.returncode, out, err)

    return run


@dataclass
class Result:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command in this process, which saves the start; an exception that escapes fails the test."""

    def run(*arguments: object, given: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["seqloom", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Result(int(ended.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory, process: Process) -> Path:
    """A folder with copy.tsv (2,200 pairs), small.tsv (its first 200) and test.tsv (100 others)."""
    folder = tmp_path_factory.mktemp("data")
    for name, count, seed in (("copy", 2200, 1), ("test", 300, 99)):
        made = process(
            "data", "make", "copy", "--count", count, "--seed", seed, "--out", folder / f"{name}.tsv"
        )
        assert made.returncode == 0, made.stderr
    seen = (folder / "copy.tsv").read_text().splitlines(keepends=True)
    new = [line for line in (folder / "test.tsv").read_text().splitlines(keepends=True) if line not in seen]
    (folder / "test.tsv").write_text("".join(new[:100]))
    (folder / "small.tsv").write_text("".join(seen[:200]))
    return folder


@pytest.fixture(scope="session")
def trained(
    tmp_path_factory: pytest.TempPathFactory, process: Process, data: Path, options: Callable[..., list[str]]
) -> Path:
    """A Transformer that has learnt to copy."""
    out = tmp_path_factory.mktemp("runs") / "copy"
    flags = options({"train.max_steps": 400, "model.layers": 1, "model.ffn": 128})
    done = process("train", data / "copy.tsv", "--out", out, "--size", "tiny", *flags)
    assert done.returncode == 0, done.stderr
    assert f"seqloom translate {out}" in done.stdout
    return out
