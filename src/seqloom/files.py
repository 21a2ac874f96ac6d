"""Writing so that a crash at any instant leaves either the old file or the new one, never half of one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from seqloom.errors import SeqloomError


def fsync(path: Path) -> None:
    """Forces a file or a folder's list of names to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, text: str) -> None:
    """Replaces the file's content in one step."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    fsync(temporary)
    os.replace(temporary, path)
    fsync(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Replaces the file by the value as indented JSON in one step."""
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The file's JSON value; a missing or damaged file is an error that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SeqloomError(f"The file {path} is missing or damaged: {error}.") from error


def check_can_write(path: Path) -> None:
    """Raises before any work is done if the file could not be written in the end."""
    if path.is_dir():
        raise SeqloomError(f"{path} is a folder, not a file to write to.", "name a file")
    if not os.access(path.parent, os.W_OK):
        raise SeqloomError(f"{path} cannot be written: there is no folder {path.parent} to write to.")


@contextmanager
def output(path: Path | None) -> Iterator[IO[str]]:
    """Where to write text: standard output as it comes, or a file that appears when it is whole."""
    if path is None or str(path) == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    partial = path.with_name(f".{path.name}.part")
    try:
        file = partial.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise SeqloomError(f"{path} cannot be written: {error.strerror}.", "choose another --out") from error
    try:
        with file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill; when the block ends well, it appears under its name, complete."""
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in temporary.rglob("*"):
            fsync(file)
        fsync(temporary)
        if path.exists():
            shutil.rmtree(path)
        os.rename(temporary, path)
        fsync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def point_to(link: Path, target: str) -> None:
    """Makes the symbolic link point to the target, in one step."""
    temporary = link.with_name(f".{link.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    os.replace(temporary, link)
    fsync(link.parent)


def sha256(path: Path) -> str:
    """The file's checksum in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
