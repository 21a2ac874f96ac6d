"""Token store: tokenised pairs, or frames and tokens, in memory-mapped files."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.encoding import Ids, Numericalizer, Row
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError
from seqloom.files import new_folder, sealed, sha256, unsealed, write_atomically
from seqloom.types import Example

_OFFSET = np.dtype("<i8")
_SIDES = ("source", "target")
_REPORT = "data-report.json"


class Tokens:
    """Ids of pairs, without BOS and EOS, and optionally the heads of the source tokens.

    Sources and targets may also be frames, (S, F) float32.
    """

    def __init__(
        self,
        ids: dict[str, NDArray[Any]],
        offsets: dict[str, NDArray[np.int64]],
        features: int,
        target_features: int = 0,
    ) -> None:
        self.features = features  # F for sources of frames; 0 for ids
        self.target_features = target_features  # F for targets of vectors; 0 for ids
        self.ids, self.offsets = ids, offsets  # by side; pair i is from offsets[i] to offsets[i + 1]
        self._count = len(offsets["source"]) - 1
        if features:
            self.ids["source"] = ids["source"].reshape(-1, features)
        if target_features:
            self.ids["target"] = ids["target"].reshape(-1, target_features)

    @classmethod
    def of(cls, examples: Iterable[Example], encoder: Numericalizer, report: DataReport) -> Tokens:
        """Encode examples in memory; dropped and truncated lines go to the report."""
        dtypes = encoder.dtypes
        ids = {side: [np.empty(0, dtype)] for side, dtype in dtypes.items()}
        lengths = {side: [0] for side in dtypes}
        for rows in encoder.chunks(examples, report):
            for column, (side, dtype) in enumerate(dtypes.items()):
                ids[side].append(np.frombuffer(_bytes([row[column] for row in rows], dtype), dtype))
                lengths[side] += [len(row[column]) for row in rows]
        return cls(
            {side: np.concatenate(parts) for side, parts in ids.items()},
            {side: np.cumsum(numbers, dtype=_OFFSET) for side, numbers in lengths.items()},
            encoder.features,
            encoder.target_features,
        )

    def __len__(self) -> int:
        return self._count

    def source(self, i: int) -> NDArray[Any]:
        """Return the source ids of pair i, (S,), or its frames, (S, F)."""
        return self._row("source", i)

    def target(self, i: int) -> NDArray[Any]:
        """Return the target ids of pair i."""
        return self._row("target", i)

    def heads(self, i: int) -> NDArray[Any]:
        """Return the heads of the source tokens of pair i."""
        return self._row("heads", i)

    def lengths(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the source and target lengths of the pairs from start to stop, without EOS."""
        source, target = (np.diff(self.offsets[side][start : stop + 1]) for side in _SIDES)
        return source, target

    def target_tokens(self, indices: NDArray[np.int64]) -> int:
        """Return the number of target tokens of these pairs, including EOS."""
        offsets = self.offsets["target"]
        return int((offsets[indices + 1] - offsets[indices]).sum()) + len(indices)

    def _row(self, side: str, i: int) -> NDArray[Any]:
        start, stop = self.offsets[side][i : i + 2]
        return self.ids[side][start:stop]


class TokenStore(Tokens):
    """Tokens in memory-mapped files, loaded on access."""

    def __init__(self, folder: Path, meta: dict[str, Any]) -> None:
        self.folder = folder
        self.token_counts: dict[str, int] = meta["tokens"]
        self.files: dict[str, int] = meta["files"]  # number of pairs per data file, in order
        self._maps: list[mmap.mmap] = []
        super().__init__(
            {side: self._map(f"{side}.bin", np.dtype(dtype)) for side, dtype in meta["dtypes"].items()},
            {side: self._map(f"{side}.idx", _OFFSET) for side in meta["dtypes"]},
            meta["features"],
            meta.get("target_features", 0),
        )

    def _map(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        with open(self.folder / name, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:  # an empty file cannot be mapped
                return np.empty(0, dtype)
            self._maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return np.frombuffer(self._maps[-1], dtype)

    def release_pages(self) -> None:
        """Return the pages that were read to the system, which may keep them in its cache.

        Otherwise the memory of a process that reads an entire store seems to grow to the size of the store.
        """
        for mapped in self._maps if hasattr(mmap, "MADV_DONTNEED") else ():
            mapped.madvise(mmap.MADV_DONTNEED)

    @property
    def report(self) -> DataReport:
        """Lines that were dropped or truncated when the store was written."""
        return DataReport.load(self.folder / _REPORT)

    @classmethod
    def write(
        cls,
        folder: str | Path,
        examples: Iterable[Example],
        encoder: Numericalizer,
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> TokenStore:
        """Write a store of these examples to `folder` atomically, and open it.

        Dropped and truncated lines are in the `report` of the store; `on_progress` is called with the number of
        examples read since its last call.
        """
        folder = Path(folder)
        report = DataReport()
        try:
            with new_folder(folder) as draft, _Writer(draft, encoder) as writer:
                for file, part in groupby(examples, lambda example: example.file):
                    for rows in encoder.chunks(part, report, on_progress):
                        writer.append(rows, file)
                report.save(draft / _REPORT)
        except OSError as error:
            raise SeqloomError(
                f"Cannot write the token store {folder}: {error.strerror or error}.",
                "free up disk space, or set SEQLOOM_CACHE to another folder",
            ) from error
        return cls.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> TokenStore:
        """Open the store in a folder, checking file sizes only; `is_sound` verifies the checksums."""
        folder = Path(folder)
        meta = _complete_meta(folder)
        if meta is None:
            raise SeqloomError(
                f"The token store {folder} is incomplete or damaged.",
                "delete the folder; it will be rebuilt from the data",
            )
        return cls(folder, meta)

    @staticmethod
    def is_complete(folder: Path) -> bool:
        """Return whether the folder contains a store whose files have the recorded sizes."""
        return _complete_meta(folder) is not None

    @staticmethod
    def is_sound(folder: Path) -> bool:
        """Return whether the folder contains a store whose files have the recorded checksums (a full read)."""
        meta = _complete_meta(folder)
        return meta is not None and all(sha256(folder / name) == sum for name, sum in meta["sha256"].items())


def remove_abandoned(folder: Path) -> None:
    """Remove the partial stores (KEY.partial-PID) of killed processes, which earlier versions left."""
    for store in folder.glob("*.partial-*"):
        try:
            os.kill(int(store.name.rpartition("-")[2]), 0)
        except (ProcessLookupError, ValueError, OverflowError):
            shutil.rmtree(store, ignore_errors=True)
        except PermissionError:  # the process runs as another user
            continue


def cache_key(*parts: str) -> str:
    """Return a hash of everything that determines a store."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode()).digest())  # fixed width: ("ab", "c") ≠ ("a", "bc")
    return digest.hexdigest()


class _Writer:
    """Appends to the files of both sides and of the trees; describes them in meta.json when all went well."""

    def __init__(self, folder: Path, encoder: Numericalizer) -> None:
        self._folder = folder
        self._fingerprint = encoder.tokenizers.fingerprint
        self._features, self._dtypes = encoder.features, encoder.dtypes
        self._target_features = encoder.target_features
        self._ends = dict.fromkeys(self._dtypes, 0)
        self._pairs = Counter[str]()  # by data file
        self._files: dict[str, IO[bytes]] = {}
        self._sums: dict[str, Any] = {}

    def __enter__(self) -> _Writer:
        for name in (f"{side}.{kind}" for side in self._ends for kind in ("bin", "idx")):
            self._files[name] = open(self._folder / name, "wb")
            self._sums[name] = hashlib.sha256()
        for side in self._ends:
            self._write(f"{side}.idx", np.zeros(1, _OFFSET).tobytes())
        return self

    def _write(self, name: str, content: bytes) -> None:
        self._files[name].write(content)
        self._sums[name].update(content)

    def append(self, pairs: Sequence[Ids], file: str) -> None:
        for column, side in enumerate(self._ends):
            rows = [pair[column] for pair in pairs]
            ends = self._ends[side] + np.cumsum([len(row) for row in rows], dtype=_OFFSET)
            self._write(f"{side}.bin", _bytes(rows, self._dtypes[side]))
            self._write(f"{side}.idx", ends.tobytes())
            self._ends[side] += sum(map(len, rows))
        self._pairs[file] += len(pairs)

    def __exit__(self, kind: object, *_: object) -> None:
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        if kind is None:
            self._describe()

    def _describe(self) -> None:
        meta = {
            "count": self._pairs.total(),
            "files": self._pairs,
            "features": self._features,
            "target_features": self._target_features,
            "tokens": self._ends,
            "dtypes": {side: dtype.str for side, dtype in self._dtypes.items()},
            "tokenizers": self._fingerprint,
            "bytes": {name: (self._folder / name).stat().st_size for name in self._files},
            "sha256": {name: digest.hexdigest() for name, digest in self._sums.items()}
            | {_REPORT: sha256(self._folder / _REPORT)},
        }
        write_atomically(self._folder / "meta.json", json.dumps(sealed(meta), indent=2))


def _bytes(rows: Sequence[Row], dtype: np.dtype[Any]) -> bytes:
    if dtype.kind == "f":
        return b"".join(np.asarray(row, dtype).tobytes() for row in rows)
    return np.fromiter(chain.from_iterable(rows), dtype).tobytes()


def _complete_meta(folder: Path) -> dict[str, Any] | None:
    try:
        meta = unsealed(json.loads((folder / "meta.json").read_text(encoding="utf-8")))
        complete = all((folder / name).stat().st_size == size for name, size in meta["bytes"].items())
        complete = complete and (folder / _REPORT).is_file() and meta.keys() >= {"files", "sha256"}
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    return meta if complete else None
