"""`--out` and `--plot` of the commands: pipes and links are not replaced, and a full disk leaves nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import Command

COMMANDS: dict[str, tuple[str, ...]] = {
    "data make": ("data", "make", "copy", "--count", "50", "--out", "{out}.txt"),
    "translate": ("translate", "{runs}/pairs", "{runs}/lines.txt", "--out", "{out}.txt"),
    "translate --trace": ("translate", "{runs}/pairs", "{runs}/lines.txt", "--trace", "{out}.json"),
    "evaluate": ("evaluate", "{runs}/pairs", "{runs}/pairs.tsv", "--out", "{out}.txt"),
    "evaluate --plot": ("evaluate", "{runs}/pairs", "{runs}/pairs.tsv", "--plot", "{out}.png"),
    "score": ("score", "{runs}/pairs", "{runs}/pairs.tsv", "--out", "{out}.jsonl"),
    "info --plot": ("info", "{runs}/pairs", "--plot", "{out}.svg"),
    "inspect search": ("inspect", "search", "{runs}/pairs", "a man", "--out", "{out}.html"),
    "inspect attention": ("inspect", "attention", "{runs}/pairs", "a man", "--out", "{out}.pdf"),
    "align": ("align", "{runs}/pairs.tsv", "--out", "{out}.txt"),
}


@pytest.fixture(params=COMMANDS.values(), ids=COMMANDS.keys())
def arguments(request: pytest.FixtureRequest, runs: Path) -> Callable[[Path], list[str]]:
    """Return the arguments of a command that writes to a path; its suffix is added."""
    return lambda out: [word.format(runs=runs, out=out) for word in request.param]


def _named(arguments: list[str], out: Path) -> Path:
    return next(Path(word) for word in arguments if word.startswith(str(out)))


def test_a_pipe_stays_a_pipe(arguments: Callable[[Path], list[str]], command: Command, tmp_path: Path) -> None:
    given = arguments(tmp_path / "out")
    fifo, received = _named(given, tmp_path / "out"), list[bytes]()
    os.mkfifo(fifo)
    thread = threading.Thread(target=lambda: received.append(fifo.read_bytes()), daemon=True)
    thread.start()
    done = command(*given)
    assert done.code == 0, done.err
    assert fifo.is_fifo()
    thread.join(timeout=10)
    assert len(received[0]) > 10


def test_a_link_stays_a_link(arguments: Callable[[Path], list[str]], command: Command, tmp_path: Path) -> None:
    given = arguments(tmp_path / "out")
    _named(given, tmp_path / "out").symlink_to("elsewhere")
    done = command(*given)
    assert done.code == 0, done.err
    assert _named(given, tmp_path / "out").is_symlink()
    assert (tmp_path / "elsewhere").stat().st_size > 10


def test_a_full_disk_leaves_no_file(
    arguments: Callable[[Path], list[str]], command: Command, tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    given = arguments(tmp_path / "out")
    full_disk(10)
    done = command(*given)
    assert done.code == 2
    assert f"{_named(given, tmp_path / 'out')} cannot be written: File too large" in done.err
    assert list(tmp_path.iterdir()) == []
