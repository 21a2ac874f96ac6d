"""Output files and folders named by the user, which appear when they are complete.

A regular file is replaced by renaming. Links are followed, never replaced. Pipes, devices and descriptors such
as /dev/stdout are written in place.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from seqloom.errors import SeqloomError
from seqloom.files import fsync, new_folder, write_all
from seqloom.locks import lock_of, locked


def check_can_write(path: Path) -> None:
    """Raise an error before any work is done if the file cannot be written."""
    if path.is_dir():
        raise SeqloomError(f"{path} is a folder, not a file.", "name a file")
    with write_errors(path):
        target = _replaced_file(path)
    if target is None:
        if not os.access(path, os.W_OK):
            raise SeqloomError(f"{path} cannot be written: Permission denied.", "choose another file")
    elif not target.parent.is_dir():
        raise SeqloomError(f"{path} cannot be written: there is no folder {target.parent}.", "create it first")
    elif not os.access(target.parent, os.W_OK):
        raise SeqloomError(
            f"{path} cannot be written: the folder {target.parent} is read-only.", "choose another folder"
        )


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into an error message that names the output."""
    try:
        yield
    except BrokenPipeError:  # the reader closed the pipe: see cli/main.py
        raise
    except OSError as error:
        elsewhere = error.filename and Path(error.filename).parent != path.parent
        where = f" ({error.filename})" if elsewhere else ""
        raise SeqloomError(
            f"{path} cannot be written: {error.strerror or error}{where}.", "check the path and the disk space"
        ) from error


@contextmanager
def output(path: Path | None) -> Iterator[IO[str]]:
    """Yield a text stream: standard output, a pipe or device, or a file that appears when it is complete."""
    if path is None or str(path) == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    with write_errors(path):
        if _replaced_file(path) is None:
            with os.fdopen(_open_in_place(path), "w", encoding="utf-8", newline="\n") as stream:
                yield stream
            return
        with draft_file(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream


def write_output(path: Path, content: str | bytes) -> None:
    """Write an output file."""
    content = content.encode() if isinstance(content, str) else content
    with write_errors(path):
        if _replaced_file(path) is None:
            handle = _open_in_place(path)
            try:
                write_all(handle, content)
            finally:
                os.close(handle)
            return
        with draft_file(path) as draft:
            draft.write_bytes(content)


@contextmanager
def draft_file(path: Path) -> Iterator[Path]:
    """Yield an empty file to fill; when the block ends without an error, its content is at `path`."""
    target = _replaced_file(path)
    if target is None:
        with TemporaryDirectory() as folder:
            draft = Path(folder) / path.name
            yield draft
            _copy_in_place(draft, path)
        return
    draft = target.with_name(f".{target.name}.part{path.suffix}")  # the suffix may determine the format
    with locked(lock_of(target), f"{path} is being written"):
        try:
            draft.unlink(missing_ok=True)  # a leftover, or a link that must not be followed
            draft.touch(exist_ok=False)
            if target.exists():
                shutil.copymode(target, draft)
            yield draft
            fsync(draft)
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
    fsync(target.parent)


def _replaced_file(path: Path) -> Path | None:
    """Return the regular file, new or existing, to replace; None if the path is written in place."""
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:  # a new file, or a link to one
        regular = True
    if not regular or _is_descriptor(path):
        return None
    return _followed(path)


def _followed(path: Path) -> Path:
    """Return the target of a chain of links."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _is_descriptor(path: Path) -> bool:
    """Return whether the path is a link through /proc/PID/fd, as /dev/stdout is."""
    while path.is_symlink():
        if path.parent.resolve().match("/proc/*/fd"):
            return True
        path = path.parent / os.readlink(path)
    return False


def _open_in_place(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND)  # `--out /dev/stdout >> log` must not overwrite the log


def _copy_in_place(draft: Path, path: Path) -> None:
    with draft.open("rb") as source, os.fdopen(_open_in_place(path), "wb") as stream:
        shutil.copyfileobj(source, stream)


def check_new_folder(path: Path, hint: str = "choose another --out") -> None:
    """Raise an error unless the folder is new or empty."""
    if path.exists() and not path.is_dir():
        raise SeqloomError(f"{path} already exists and is not a folder.", "choose another --out")
    if path.is_dir() and any(path.iterdir()):
        raise SeqloomError(f"{path} already exists and is not empty.", hint)


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Create the parent folder of a new folder, and keep other processes from creating the same one."""
    target = _followed(path)
    with (
        write_errors(path),
        _created_folder(target.parent),
        locked(lock_of(target), f"{path} is being written"),
    ):
        yield


@contextmanager
def _created_folder(folder: Path) -> Iterator[None]:
    """Create a folder and its parents; if the block fails, remove those that did not exist before."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for parent in missing:
            with suppress(OSError):  # another process uses it
                parent.rmdir()
        raise


@contextmanager
def new_output_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; it appears at `path`, or the target of that link, when complete."""
    with only_writer(path):
        check_new_folder(path)
        with new_folder(path) as draft:
            yield draft
