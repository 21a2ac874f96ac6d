"""Run seqloom commands, in this process or in their own, and Python code in a new interpreter."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from unittest.mock import patch

from seqloom.cli.main import main


class Result(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class Command(Protocol):
    """A command runner: `run_command` or `run_process`."""

    def __call__(self, *arguments: object, given: str | bytes = "") -> Result: ...


def _fixed(arguments: tuple[object, ...]) -> list[str]:
    """Return the arguments; `train` uses constants unless the test asks for a plan (which measures speed)."""
    words = list(map(str, arguments))
    chosen = {"--plan", "--config", "--minutes", "--help"} & set(words)
    return [*words, "--plan", "fixed"] if "train" in words[:3] and not chosen else words


def run_command(*arguments: object, given: str | bytes = "", program: str = "seqloom") -> Result:
    """Run a command in this process, which saves the start-up time; other exceptions than SystemExit escape."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
    stdin = io.TextIOWrapper(io.BytesIO(_bytes(given)), "utf-8")
    words = [program, *_fixed(arguments)]
    code: Any = 0
    with patch.object(sys, "argv", words), patch.object(sys, "stdin", stdin):
        try:
            with redirect_stdout(out), redirect_stderr(err):
                main()
        except SystemExit as ended:
            code = ended.code or 0
    return Result(int(code), *(stream.buffer.getvalue().decode() for stream in (out, err)))


def start_process(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start `python -m seqloom ...` on one thread, with pipes unless the options of Popen say otherwise."""
    usual: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-m", "seqloom", *_fixed(arguments)]
    return subprocess.Popen(command, env=_environment(), **{**usual, "encoding": "utf-8", **options})


def run_process(*arguments: object, given: str | bytes = "") -> Result:
    """Run `python -m seqloom ...` to its end; if the test ends first, it ends too, with its workers."""
    process: Any = start_process(*arguments, start_new_session=True, encoding=None)  # as text, \r becomes \n
    with process:
        try:
            out, err = process.communicate(_bytes(given), timeout=1000)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return Result(process.returncode, out.decode(), err.decode())


def run_python(code: str, *arguments: object, folder: Path | None = None) -> str:
    """Run code in a new interpreter and return its standard output; a failure fails the test."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _bytes(given: str | bytes) -> bytes:
    return given.encode() if isinstance(given, str) else given


def _environment() -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}, "OMP_NUM_THREADS": "1"}
