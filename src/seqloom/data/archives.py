"""Zip archives that may be hostile: their members are read one at a time, from a temporary folder."""

from __future__ import annotations

import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from seqloom.data.lines import cannot_read
from seqloom.errors import SeqloomError
from seqloom.limits import ARCHIVE_BYTES, ARCHIVE_MEMBERS, ARCHIVE_RATIO

# What zipfile raises for a damaged file, or one with a compression or encryption that it does not know.
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)
_ENCRYPTED = 1  # bit of the flags of a member


class Archive:
    """Members of a zip archive, by name."""

    def __init__(self, path: str, file: zipfile.ZipFile) -> None:
        self.path, self._file = path, file
        self._members = {one.filename: one for one in file.infolist() if not one.is_dir()}
        _check(path, list(self._members.values()))

    @property
    def names(self) -> list[str]:
        """Names of the files in the archive, sorted, without those that systems add."""
        return sorted(name for name in self._members if not _is_hidden(name))

    @contextmanager
    def extracted(self, *names: str) -> Iterator[list[str]]:
        """Yield the paths of temporary files with the content of members."""
        with TemporaryDirectory(prefix="seqloom-") as folder:
            yield [self._extract(name, Path(folder)) for name in names]

    def _extract(self, name: str, folder: Path) -> str:
        """Write a member to a folder; zipfile reads no more than the size that the archive states."""
        out = folder.joinpath(*PurePosixPath(name).parts)
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._file.open(self._members[name]) as member, out.open("wb") as copy:
                shutil.copyfileobj(member, copy)
        except ZIP_ERRORS as error:
            raise SeqloomError(
                f"{name} in {self.path} cannot be read: {error}.", "download or pack the archive again"
            ) from error
        return str(out)


@contextmanager
def open_archive(path: str, what: str = "a zip archive") -> Iterator[Archive]:
    """Open a zip archive; raise if its sizes or names are unsafe. `what` says in the error what is expected."""
    try:
        file = zipfile.ZipFile(path)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise cannot_read(path, error) from error
    except ZIP_ERRORS as error:
        raise SeqloomError(f"{path} is not {what}, or is incomplete.", "download or write it again") from error
    with file:
        yield Archive(path, file)


def _check(path: str, members: list[zipfile.ZipInfo]) -> None:
    """Raise for archives that would fill the disk, write outside their folder, or need a password."""
    if len(members) > ARCHIVE_MEMBERS:
        raise SeqloomError(f"{path} has more than {ARCHIVE_MEMBERS:,} files.", "divide the archive")
    total, packed = sum(one.file_size for one in members), Path(path).stat().st_size
    if total > ARCHIVE_BYTES + ARCHIVE_RATIO * packed:
        raise SeqloomError(
            f"{path} has {packed:,} bytes, but would unpack to {total:,}.", "unpack it yourself if you trust it"
        )
    for one in members:
        parts = PurePosixPath(one.filename).parts
        if ".." in parts or one.filename.startswith("/") or any(c in one.filename for c in "\\:\0"):
            raise SeqloomError(f"{path} has a file with an unsafe path: {one.filename!r}.", "pack it again")
        if one.flag_bits & _ENCRYPTED:
            raise SeqloomError(f"{one.filename} in {path} is encrypted.", "unpack the archive first")


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)
