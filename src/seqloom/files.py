"""Writing so that a crash at any instant leaves either the old file or the new one, never half of one."""

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

SEAL = "seal"  # the entry of a JSON object that is the checksum of the others
SUMS = "sums.json"  # the checksums of a folder's files
_SEAL_LINE = "# sha256 of the lines above: "


def is_special(path: str | Path) -> bool:
    """Return whether the path leads to a pipe, a device or a socket: reading it may never end."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def fsync(path: Path) -> None:
    """Forces a file or a folder's list of names to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, content: bytes) -> None:
    """Writes to an open file all there is; the system may take it in several portions."""
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file and forces it to the disk; under a name that nobody reads until all is there."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, text: str) -> None:
    """Replaces the file's content in one step."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # a link that somebody put there is not written through
        write_bytes(temporary, text.encode())
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    fsync(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Replaces the file by the value as indented JSON in one step."""
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values and a checksum of them, so that a single changed bit is noticed."""
    return {**values, SEAL: _checksum(values)}


def unsealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that were sealed; ValueError if they are not the same. Without a seal they are as they are."""
    inner = {name: value for name, value in values.items() if name != SEAL}
    if SEAL in values and values[SEAL] != _checksum(inner):
        raise ValueError("its checksum is not the recorded one")
    return inner


def _checksum(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_sealed(path: Path) -> dict[str, Any]:
    """The values of a sealed JSON file; a missing, damaged or changed one is an error that names it."""
    values = read_json(path)
    try:
        if not isinstance(values, dict):
            raise ValueError("it is no object")
        return unsealed(values)
    except ValueError as error:
        raise SeqloomError(f"The file {path} is damaged: {error}.", "restore it from a copy") from error


def sealed_text(text: str) -> str:
    """Lines with a comment below them that is their checksum."""
    return f"{text}{_SEAL_LINE}{hashlib.sha256(text.encode()).hexdigest()}\n"


def check_sealed_text(path: Path) -> None:
    """Raises if the file is not the one that was sealed; without the last line it is as it is."""
    try:
        text, line, found = path.read_bytes().partition(_SEAL_LINE.encode())
    except OSError:
        return  # whoever reads it has a better word for it
    if line and hashlib.sha256(text).hexdigest().encode() != found.strip():
        raise SeqloomError(
            f"The file {path} is not as it was written: its checksum is not the recorded one.",
            "if you have changed it yourself, remove its last line; else restore it from a copy",
        )


def read_json(path: Path) -> Any:
    """The file's JSON value; a missing or damaged file is an error that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SeqloomError(f"The file {path} is missing or damaged: {error}.") from error


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise SeqloomError(f"{path} must be a JSON object, got {quoted(value)}.", "restore it from a copy")
    return value


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; when the block ends without an error, it appears at `path`.

    If `path` is a link, the folder appears where the link leads to.
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
    """Renames the new folder; one that was there is kept aside until then, see `clean_up_leftovers`."""
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
    """Makes the folder disappear in one step, so that half of it is never seen."""
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    os.rename(path, temporary)
    shutil.rmtree(temporary, ignore_errors=True)


def clean_up_leftovers(folder: Path) -> None:
    """Finish or undo what processes that are gone left half done in a folder."""
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
    """Makes the symbolic link point to the target, in one step; nothing happens if it does already."""
    if link.is_symlink() and os.readlink(link) == target:
        return
    temporary = link.with_name(f".{link.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    os.replace(temporary, link)
    fsync(link.parent)


def sha256(path: Path) -> str:
    """The file's checksum in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(folder: Path) -> None:
    """Writes the checksums of a folder's files beside them."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != SUMS]
    write_json(folder / SUMS, sealed({str(path.relative_to(folder)): sha256(path) for path in files}))


def check_folder(folder: Path) -> None:
    """Raises if one of the files of which `write_sums` wrote the checksums is not what it was."""
    for name, expected in read_sealed(folder / SUMS).items():
        if not (folder / name).is_file() or sha256(folder / name) != expected:
            raise SeqloomError(
                f"The file {folder / name} is damaged: its checksum is not the recorded one.",
                "make the folder again, or restore it from a copy",
            )
