"""Locks between processes, with `flock` on a lock file.

The kernel releases the lock when a process ends for any reason, so there are no stale locks. A lock file
names its owner and is removed when the lock is released.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seqloom.errors import SeqloomError

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # some network file systems do not support locks
_LONGEST_OWNER = 500  # maximum bytes of the owner's name in a lock file
_OWNER_DELAY = 0.5  # seconds to wait for a new owner to write its name


def lock_of(path: Path) -> Path:
    """Return the lock file of a file or folder that is being written, in the same folder."""
    return path.with_name(f".{path.name}.lock")


@contextmanager
def locked(file: Path, activity: str) -> Iterator[None]:
    """Hold a lock; raise an error that names the owner if another process holds it.

    `activity` is what the owner is doing, e.g. "The run x is being trained".
    """
    handle = _acquire(file)
    if handle is None:
        raise SeqloomError(f"{activity} by {_owner(file)}.", "wait until that process has finished, or stop it")
    with _held(file, handle):
        yield


@contextmanager
def locked_after_waiting(file: Path, activity: str) -> Iterator[None]:
    """Hold a lock; print a message and wait if another process holds it."""
    handle = _acquire(file)
    if handle is None:
        print(f"waiting: {activity} by {_owner(file)}", file=sys.stderr, flush=True)
        handle = _acquire(file, wait=True)
    assert handle is not None
    with _held(file, handle):
        yield


@contextmanager
def locked_if_free(file: Path) -> Iterator[bool]:
    """Hold a lock unless another process holds it; yield whether this process holds it."""
    handle = _acquire(file)
    if handle is None:
        yield False
        return
    with _held(file, handle):
        yield True


def _acquire(file: Path, *, wait: bool = False) -> int | None:
    """Return the handle of the locked file, or None if another process holds the lock."""
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            if not _flock(handle, wait=wait):
                os.close(handle)
                return None
            if _is_at(file, handle):
                _write_owner(handle)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the owner has removed the file meanwhile: lock the one that is there now


def _flock(handle: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    return True


def _is_at(file: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(file), os.fstat(handle))
    except FileNotFoundError:
        return False


def _write_owner(handle: int) -> None:
    program = Path(sys.argv[0]).name
    command = shlex.join(["seqloom" if program == "__main__.py" else program, *sys.argv[1:]])
    name = f"process {os.getpid()} on {socket.gethostname()} ({command})"
    with suppress(OSError):  # on a full disk the lock works without a name
        os.ftruncate(handle, 0)
        os.write(handle, name.encode(errors="replace")[:_LONGEST_OWNER])


def _owner(file: Path) -> str:
    """Return the name of the process that holds the lock."""
    deadline = time.monotonic() + _OWNER_DELAY
    while time.monotonic() < deadline:
        with suppress(OSError), file.open("rb") as opened:
            if name := opened.read(_LONGEST_OWNER).decode(errors="replace"):
                return name
        time.sleep(0.01)
    return "another process"


@contextmanager
def _held(file: Path, handle: int) -> Iterator[None]:
    try:
        yield
    finally:
        try:
            with suppress(OSError):  # a leftover lock file that nobody holds is harmless
                file.unlink(missing_ok=True)
        finally:
            os.close(handle)
