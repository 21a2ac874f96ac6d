"""Public data sets: address, licence, checksums, and downloads that can be resumed."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seqloom.errors import SeqloomError, unknown
from seqloom.files import fsync, sha256
from seqloom.locks import lock_of, locked_after_waiting

CHUNK = 1 << 16
TIMEOUT = 30.0  # seconds without a response
ATTEMPTS = 3  # connections per file before giving up

Progress = Callable[[str, int, int], None]  # file name, bytes so far, total bytes


@dataclass(frozen=True)
class RemoteFile:
    """File of a data set, relative to its address."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Dataset:
    """Public data set."""

    name: str
    summary: str
    licence: str
    address: str
    files: tuple[RemoteFile, ...]


MULTI30K = Dataset(
    name="multi30k",
    summary="image captions in English, German and French: 29,000 train, 1,014 validation, 1,000 test",
    licence="research use; see https://github.com/multi30k/dataset",
    address="https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/",
    files=(
        RemoteFile("train.en.gz", 568929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
        RemoteFile("train.de.gz", 637044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
        RemoteFile("train.fr.gz", 604242, "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c"),
        RemoteFile("val.en.gz", 21650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
        RemoteFile("val.de.gz", 24681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
        RemoteFile("val.fr.gz", 23001, "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9"),
        RemoteFile(
            "test_2016_flickr.en.gz", 21077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"
        ),
        RemoteFile(
            "test_2016_flickr.de.gz", 22890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"
        ),
        RemoteFile(
            "test_2016_flickr.fr.gz", 22310, "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90"
        ),
    ),
)
DATASETS: dict[str, Dataset] = {MULTI30K.name: MULTI30K}


def dataset(name: str) -> Dataset:
    """Return the data set with this name; raise an error with a suggestion if there is none."""
    if name not in DATASETS:
        raise unknown("data set", name, DATASETS)
    return DATASETS[name]


def get(
    name: str, folder: Path, *, address: str | None = None, on_progress: Progress | None = None
) -> list[Path]:
    """Download the missing files of a data set, verify all files, and return their paths.

    `address` is a mirror that replaces the address of the data set; the checksums stay the same.
    """
    chosen = dataset(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SeqloomError(
            f"Cannot create the folder {folder}: {error.strerror}.", "choose another folder"
        ) from error
    base = address or chosen.address
    for file in chosen.files:
        path = folder / file.name
        if path.exists():
            _verify_existing(path, file)
            continue
        with locked_after_waiting(lock_of(path), f"{path} is being downloaded"):
            if not path.exists():  # another process may have downloaded it
                report = on_progress or (lambda name, done, size: None)
                _download(file, base, path, report, _manual_hint(chosen, folder))
    return [folder / file.name for file in chosen.files]


def _manual_hint(chosen: Dataset, folder: Path) -> str:
    missing = [file.name for file in chosen.files if not (folder / file.name).exists()]
    return (
        f"run the command again to resume, or download these files from {chosen.address} to {folder}: "
        + ", ".join(missing)
    )


def _verify_existing(path: Path, file: RemoteFile) -> None:
    """Check an existing file. A wrong file is never overwritten, since it may belong to the user."""
    if sha256(path) != file.sha256:
        raise SeqloomError(
            f"{path} already exists, but its checksum differs from the file of the data set.",
            "move the file or choose another folder",
        )


def _download(file: RemoteFile, base: str, path: Path, on_progress: Progress, hint: str) -> None:
    part = path.with_name(f"{path.name}.part")
    url = base.rstrip("/") + "/" + file.name
    for _ in range(ATTEMPTS):
        _resume(url, part, file, on_progress, hint)
        if part.stat().st_size >= file.size:
            break
    else:
        raise SeqloomError(
            f"The download of {url} stopped after {part.stat().st_size:,} of {file.size:,} bytes "
            f"in {ATTEMPTS} attempts.",
            hint,
        )
    found = sha256(part)
    if found != file.sha256:
        part.unlink()
        raise SeqloomError(
            f"{url} has the wrong SHA-256 checksum: {found} instead of {file.sha256}.",
            "the file was damaged in transit or has changed at its source; try again, or download it manually",
        )
    fsync(part)
    part.replace(path)


def _resume(url: str, part: Path, file: RemoteFile, on_progress: Progress, hint: str) -> None:
    """Continue the partial file with one connection, from where the last one ended."""
    have = part.stat().st_size if part.exists() else 0
    if have == file.size:
        return
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            if response.status != http.HTTPStatus.PARTIAL_CONTENT:  # no support for ranges: start again
                have = 0
            with part.open("ab" if have else "wb") as out:
                while have <= file.size and (chunk := response.read(CHUNK)):
                    out.write(chunk)
                    have += len(chunk)
                    on_progress(file.name, have, file.size)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise SeqloomError(f"{url} returned {error.code} {error.reason}.", hint) from error
        part.write_bytes(b"")  # the partial file does not match: the next attempt starts again
    except urllib.error.URLError as error:
        raise SeqloomError(f"Cannot reach {url}: {error.reason}.", hint) from error
    except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException):
        part.touch()  # the connection broke: the next attempt continues from here
    except OSError as error:
        raise SeqloomError(
            f"Cannot write {part}: {error.strerror}.", "free up disk space or choose another folder"
        ) from error
