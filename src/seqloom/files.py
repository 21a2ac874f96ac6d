"""Atomic writing and checksums: a crash leaves either the old file or the new one, never a part of one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError, quoted
from seqloom.locks import lock_of, locked_if_free

SEAL = "seal"  # key of the checksum in a JSON object
SUMS = "sums.json"  # file with the checksums of a folder
_SEAL_LINE = "# sha256 of the lines above: "


def is_special(path: str | Path) -> bool:
    """Return whether the path is a pipe, a device or a socket: reading it may never end."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def fsync(path: Path) -> None:
    """Force a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, content: bytes) -> None:
    """Write all bytes to an open file; one call of `os.write` may write only a part of them."""
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(handle, remaining) :]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file and force it to the disk; not atomic, so use a temporary name."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, text: str) -> None:
    """Replace the content of a file atomically."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # never write through an existing link
        write_bytes(temporary, text.encode())
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    fsync(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON atomically."""
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with their checksum, which detects any changed bit."""
    return {**values, SEAL: _checksum(values)}


def unsealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without their checksum; raise ValueError if it does not match. It may be absent."""
    inner = {name: value for name, value in values.items() if name != SEAL}
    if SEAL in values and values[SEAL] != _checksum(inner):
        raise ValueError("its checksum does not match")
    return inner


def _checksum(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_sealed(path: Path) -> dict[str, Any]:
    """Return the values of a sealed JSON file; raise if it is missing, damaged or changed."""
    values = read_json(path)
    try:
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
        return unsealed(values)
    except ValueError as error:
        raise SeqloomError(f"The file {path} is damaged: {error}.", "restore it from a backup") from error


def sealed_text(text: str) -> str:
    """Return the text followed by a comment line with its checksum."""
    return f"{text}{_SEAL_LINE}{hashlib.sha256(text.encode()).hexdigest()}\n"


def check_sealed_text(path: Path) -> None:
    """Raise if the file differs from its checksum; a file without the checksum line is accepted."""
    try:
        text, line, found = path.read_bytes().partition(_SEAL_LINE.encode())
    except OSError:
        return  # reading the file reports a better error
    if line and hashlib.sha256(text).hexdigest().encode() != found.strip():
        raise SeqloomError(
            f"The file {path} was changed: its checksum does not match.",
            "if you changed it yourself, remove its last line; otherwise restore it from a backup",
        )


def read_json(path: Path) -> Any:
    """Return the JSON value of a file; raise if the file is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SeqloomError(f"The file {path} is missing or damaged: {error}.") from error


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise SeqloomError(f"{path} must be a JSON object, got {quoted(value)}.", "restore it from a backup")
    return value


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; when the block ends without an error, it appears at `path`.

    If `path` is a link, the folder appears at the target of the link.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in temporary.rglob("*"):
            fsync(file)
        fsync(temporary)
        _put_in_place(temporary, path)
        fsync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(temporary: Path, path: Path) -> None:
    """Rename the new folder; an existing one is moved aside meanwhile, see `clean_up_leftovers`."""
    if not path.exists():
        os.rename(temporary, path)
        return
    aside = path.with_name(f".{path.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    os.rename(path, aside)
    try:
        os.rename(temporary, path)
    except OSError:
        os.rename(aside, path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Remove a folder atomically: other processes never see a part of it."""
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    os.rename(path, temporary)
    shutil.rmtree(temporary, ignore_errors=True)


def clean_up_leftovers(folder: Path) -> None:
    """Complete or undo the writes to a folder that were interrupted when a process died."""
    leftovers = (file for suffix in ("tmp", "old", "lock") for file in folder.glob(f".*.{suffix}"))
    for path in {file.with_name(file.stem[1:]) for file in leftovers}:
        with locked_if_free(lock_of(path)) as is_free:
            if is_free:
                _clean_up(path)


def _clean_up(path: Path) -> None:
    aside = path.with_name(f".{path.name}.old")
    if aside.exists() and not path.exists():
        os.rename(aside, path)
    for leftover in (path.with_name(f".{path.name}.tmp"), aside):
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def point_to(link: Path, target: str) -> None:
    """Point a symbolic link to the target atomically, unless it points there already."""
    if link.is_symlink() and os.readlink(link) == target:
        return
    temporary = link.with_name(f".{link.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    os.replace(temporary, link)
    fsync(link.parent)


def sha256(path: Path) -> str:
    """Return the SHA-256 checksum of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(folder: Path) -> None:
    """Write the checksums of the files in a folder to a file in the folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != SUMS]
    write_json(folder / SUMS, sealed({str(path.relative_to(folder)): sha256(path) for path in files}))


def check_folder(folder: Path) -> None:
    """Raise if a file differs from the checksum that `write_sums` recorded."""
    for name, expected in read_sealed(folder / SUMS).items():
        if not (folder / name).is_file() or sha256(folder / name) != expected:
            raise SeqloomError(
                f"The file {folder / name} is damaged: its checksum does not match.",
                "create the folder again, or restore it from a backup",
            )
