"""`seqloom translate --flush`: another process sends a line and reads its output before it sends the next."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.commands import Command, start_process

SECONDS = 60  # enough for a busy machine to import torch; a deadlock ends here


@contextmanager
def translating(run: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start `seqloom translate --flush` with pipes; kill it if it hangs."""
    command = ("translate", run, "--flush", "--beam", 1, *options)
    with start_process(*command, bufsize=1, stderr=None) as process:
        watchdog = threading.Timer(SECONDS, process.kill)
        watchdog.start()
        try:
            yield process
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait() == 0
        finally:
            watchdog.cancel()
            process.kill()


def ask(process: subprocess.Popen[str], line: str) -> str:
    """Send one line and wait for its output."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{line}\n")
    return process.stdout.readline()


def test_each_line_is_translated_before_the_next_is_sent(runs: Path) -> None:
    with translating(runs / "pairs", "--json") as process:
        for number, line in enumerate(["a man is running.", "", "two women are here!"], 1):
            answer = json.loads(ask(process, line))
            assert (answer["line"], answer["source"]) == (number, line)


def test_plain_output_is_the_same_as_without_flush(runs: Path, command: Command) -> None:
    lines = ["a dog is running.", "the girl sits on a red bench."]
    with translating(runs / "pairs", "--column", "1", "--format", "tsv") as process:
        flushed = "".join(ask(process, line) for line in lines)
    given = "".join(f"{line}\n" for line in lines)
    assert flushed == command("translate", runs / "pairs", "--beam", "1", given=given).out


@pytest.mark.parametrize("other", [("--trace", "trees.json"), ("--processes", "2")])
def test_flush_refuses_options_that_need_several_lines(
    runs: Path, command: Command, other: tuple[str, str]
) -> None:
    result = command("translate", runs / "pairs", "--flush", *other, given="a man\n")
    assert result.code == 2
    assert other[0] in result.err
