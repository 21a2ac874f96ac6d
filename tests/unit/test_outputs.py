"""Files that the user names: pipes, devices, links, permissions, and two processes with the same output."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seqloom.errors import SeqloomError
from seqloom.outputs import (
    check_can_write,
    check_new_folder,
    draft_file,
    new_output_folder,
    output,
    write_output,
)

Write = Callable[[Path], None]


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@contextlib.contextmanager
def reader(fifo: Path) -> Iterator[list[bytes]]:
    """Read the pipe in a thread, as another program would."""
    received: list[bytes] = []
    thread = threading.Thread(target=lambda: received.append(fifo.read_bytes()), daemon=True)
    thread.start()
    yield received
    thread.join(timeout=10)
    assert not thread.is_alive(), "nothing was written to the pipe"


def _write_by_stream(path: Path) -> None:
    with output(path) as stream:
        stream.write("ä\n")


def _write_at_once(path: Path) -> None:
    write_output(path, "ä\n")


def _write_by_draft(path: Path) -> None:
    with draft_file(path) as draft:
        draft.write_bytes("ä\n".encode())


WRITERS = pytest.mark.parametrize("write", [_write_by_stream, _write_at_once, _write_by_draft])


@WRITERS
def test_a_pipe_stays_a_pipe(write: Write, fifo: Path) -> None:
    check_can_write(fifo)
    with reader(fifo) as received:
        write(fifo)
    assert received == ["ä\n".encode()]
    assert fifo.is_fifo() and list(fifo.parent.iterdir()) == [fifo]


@WRITERS
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_written_through(write: Write, exists: bool, tmp_path: Path) -> None:
    target, link = tmp_path / "deep" / "target.txt", tmp_path / "link.txt"
    target.parent.mkdir()
    if exists:
        target.write_text("old")
    link.symlink_to("deep/target.txt")
    check_can_write(link)
    write(link)
    assert os.readlink(link) == "deep/target.txt" and target.read_text() == "ä\n"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["deep", "link.txt", "target.txt"]


@WRITERS
def test_a_device_is_written_in_place(write: Write, tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    try:
        write(Path(os.ttyname(terminal)))
        assert os.read(controller, 100) == "ä\r\n".encode()
        assert stat.S_ISCHR(os.stat(os.ttyname(terminal)).st_mode)
    finally:
        os.close(controller)
        os.close(terminal)


@WRITERS
def test_a_descriptor_is_appended_to(write: Write, tmp_path: Path) -> None:
    """`seqloom ... --out /dev/fd/N N>>log` must neither replace nor overwrite the log."""
    (tmp_path / "log").write_text("before\n")
    with (tmp_path / "log").open("a") as log:
        write(Path(f"/dev/fd/{log.fileno()}"))
        log.write("after\n")
    assert (tmp_path / "log").read_text() == "before\nä\nafter\n"


@WRITERS
def test_permissions_follow_the_umask_or_the_old_file(write: Write, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "new")
        (tmp_path / "private").touch(0o600)
        write(tmp_path / "private")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_what_cannot_be_written_is_reported_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("none/file")
    for path, reason in (
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "file", "there is no folder"),
        (tmp_path / "nowhere", "there is no folder"),
        (tmp_path / "loop", "Too many levels of symbolic links"),
    ):
        with pytest.raises(SeqloomError, match=reason):
            check_can_write(path)


def test_a_read_only_folder_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # the superuser may write everywhere
    with pytest.raises(SeqloomError, match="is read-only"):
        check_can_write(tmp_path / "file")


def test_a_file_is_not_called_a_full_folder(tmp_path: Path, fifo: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", fifo):
        with pytest.raises(SeqloomError, match="is not a folder"):
            check_new_folder(path)


def test_two_processes_cannot_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    program = "import sys, pathlib, seqloom.outputs as o\nwith o.output(pathlib.Path(sys.argv[1])): input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, env=os.environ
    ) as other:
        lock = tmp_path / ".out.txt.lock"
        while not (lock.exists() and lock.stat().st_size):  # the name of the owner is written after locking
            assert other.poll() is None
        with pytest.raises(SeqloomError, match=f"out.txt is being written by process {other.pid} on "):
            write_output(path, "mine")
        other.kill()
    write_output(path, "mine")
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]
    assert path.read_text() == "mine"


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_appears_where_a_link_leads(exists: bool, tmp_path: Path) -> None:
    (tmp_path / "big-disk").mkdir()
    if exists:
        (tmp_path / "big-disk" / "runs").mkdir()
    (tmp_path / "link").symlink_to("big-disk/runs")
    with new_output_folder(tmp_path / "link") as draft:
        (draft / "file").write_text("")
    assert (tmp_path / "link").is_symlink()
    assert [p.name for p in (tmp_path / "big-disk" / "runs").iterdir()] == ["file"]
    assert sorted(os.listdir(tmp_path)) == ["big-disk", "link"]


def test_output_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with output(path) as file:
        file.write("ä\n")
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == "ä\n"
    assert list(tmp_path.iterdir()) == [path]


def test_output_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with contextlib.suppress(ZeroDivisionError), output(path) as file:
        file.write("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
