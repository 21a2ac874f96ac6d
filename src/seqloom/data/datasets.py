"""Named public data sets: address, licence, checksum, and a download that can be broken off and continued."""

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
TIMEOUT = 30.0  # seconds without an answer
ATTEMPTS = 3  # connections per file before we leave it to the person

Progress = Callable[[str, int, int], None]  # file name, bytes so far, bytes in all


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set, relative to its address."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Dataset:
    """A data set that anybody can fetch."""

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
    """The data set of that name, or an error that lists the nearest ones."""
    if name not in DATASETS:
        raise unknown("data set", name, DATASETS)
    return DATASETS[name]


def get(
    name: str, folder: Path, *, address: str | None = None, on_progress: Progress | None = None
) -> list[Path]:
    """The paths of the data set's files, all complete and correct; fetches those that are not there yet.

    `address` is a mirror to use in place of the data set's own address; the checksums stay the same.
    """
    chosen = dataset(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SeqloomError(
            f"The folder {folder} cannot be made: {error.strerror}.", "choose another"
        ) from error
    base = address or chosen.address
    for file in chosen.files:
        path = folder / file.name
        if path.exists():
            _verify_own(path, file)
            continue
        with locked_after_waiting(lock_of(path), f"{path} is being fetched"):
            if not path.exists():  # else another process has fetched it
                report = on_progress or (lambda name, done, size: None)
                _fetch(file, base, path, report, _by_hand(chosen, folder))
    return [folder / file.name for file in chosen.files]


def _by_hand(chosen: Dataset, folder: Path) -> str:
    missing = [file.name for file in chosen.files if not (folder / file.name).exists()]
    return (
        f"run the command again to continue, or put these files from {chosen.address} into {folder} by hand: "
        + ", ".join(missing)
    )


def _verify_own(path: Path, file: RemoteFile) -> None:
    """Leaves a file that is there alone, whatever it is: it may be the person's own."""
    if sha256(path) != file.sha256:
        raise SeqloomError(
            f"{path} is there already, but it is not the file of the data set (its checksum differs).",
            "move it away or choose another folder",
        )


def _fetch(file: RemoteFile, base: str, path: Path, on_progress: Progress, by_hand: str) -> None:
    part = path.with_name(f"{path.name}.part")
    url = base.rstrip("/") + "/" + file.name
    for _ in range(ATTEMPTS):
        _continue(url, part, file, on_progress, by_hand)
        if part.stat().st_size >= file.size:
            break
    else:
        raise SeqloomError(
            f"{url} broke off after {part.stat().st_size:,} of {file.size:,} bytes, {ATTEMPTS} times.", by_hand
        )
    found = sha256(part)
    if found != file.sha256:
        part.unlink()
        raise SeqloomError(
            f"{url} is not the file that was expected: its SHA-256 is {found} instead of {file.sha256}.",
            "the file was damaged on the way or changed at its source; try again, or fetch it by hand",
        )
    fsync(part)
    part.replace(path)


def _continue(url: str, part: Path, file: RemoteFile, on_progress: Progress, by_hand: str) -> None:
    """Appends to the part what one connection gives, beginning where the last one ended."""
    have = part.stat().st_size if part.exists() else 0
    if have == file.size:
        return
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            if answer.status != http.HTTPStatus.PARTIAL_CONTENT:  # the server knows no ranges and starts anew
                have = 0
            with part.open("ab" if have else "wb") as out:
                while have <= file.size and (chunk := answer.read(CHUNK)):
                    out.write(chunk)
                    have += len(chunk)
                    on_progress(file.name, have, file.size)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise SeqloomError(f"{url} answers {error.code} {error.reason}.", by_hand) from error
        part.write_bytes(b"")  # what we have does not belong to this file: the next attempt starts anew
    except urllib.error.URLError as error:
        raise SeqloomError(f"{url} cannot be reached: {error.reason}.", by_hand) from error
    except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException):
        part.touch()  # the connection broke: the next attempt goes on from here
    except OSError as error:
        raise SeqloomError(
            f"{part} cannot be written: {error.strerror}.", "make room or choose another"
        ) from error
