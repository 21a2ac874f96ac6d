"""Tokenised pairs, or frames and tokens, in memory-mapped files: written once, read without loading."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.encoding import Ids, Limit, Long, Row, encode, fit
from seqloom.data.report import DataReport
from seqloom.errors import SeqloomError
from seqloom.text.frames import FrameReader
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import Example

_CHUNK = 20_000  # examples that are tokenised at a time
_CHUNK_OF_FRAMES = 200  # the same of files of features, which are larger
_NO_LIMIT = 2**62
_OFFSET = np.dtype("<i8")
_SIDES = ("source", "target")
_REPORT = "data-report.json"


class TokenStore:
    """The ids of every pair, without BOS and EOS, and perhaps heads: the tree of each source.

    A source may be frames, (S, F) float32, instead. Nothing is in memory but what is asked for.
    """

    def __init__(self, folder: Path, meta: dict[str, Any]) -> None:
        self.folder = folder
        self.token_counts: dict[str, int] = meta["tokens"]
        self.features: int = meta.get("features", 0)  # F of a source of frames; 0 or none: they are ids
        self._count: int = meta["count"]
        dtypes: dict[str, str] = meta["dtypes"]
        self.ids = {side: _map(folder / f"{side}.bin", np.dtype(dtype)) for side, dtype in dtypes.items()}
        self.offsets = {side: _map(folder / f"{side}.idx", _OFFSET) for side in dtypes}
        if self.features:
            self.ids["source"] = self.ids["source"].reshape(-1, self.features)

    def __len__(self) -> int:
        return self._count

    @property
    def report(self) -> DataReport:
        """What was left out or cut when the store was written."""
        return DataReport.load(self.folder / _REPORT)

    def source(self, i: int) -> NDArray[Any]:
        """The source ids of pair i, (S,), or its frames, (S, F)."""
        return self._row("source", i)

    def target(self, i: int) -> NDArray[Any]:
        """The target ids of pair i."""
        return self._row("target", i)

    def lengths(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The source and the target lengths of the pairs from start to stop; EOS is not counted."""
        source, target = (np.diff(self.offsets[side][start : stop + 1]) for side in _SIDES)
        return source, target

    def _row(self, side: str, i: int) -> NDArray[Any]:
        start, stop = self.offsets[side][i : i + 2]
        return self.ids[side][start:stop]

    @classmethod
    def write(
        cls,
        folder: Path,
        examples: Iterable[Example],
        tokenizers: TokenizerPair,
        *,
        max_length: int,
        max_frames: int = _NO_LIMIT,
        long: Long,
        trees: bool = False,
        on_progress: Callable[[int], None] | None = None,
        threads: int,
    ) -> TokenStore:
        """The store of these examples, which appears in `folder` complete or not at all.

        Whatever is left out or cut is in the store's own `report`; `on_progress` hears how many more examples
        have been read. `max_frames` is the longest source of frames, as `max_length` is of tokens.
        """
        partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        report = DataReport()
        limits = Limit(max_frames, "frames") if tokenizers.frames else Limit(max_length), Limit(max_length)
        try:
            with _Writer(partial, tokenizers, trees=trees) as writer:
                for chunk in _chunks(examples, _CHUNK_OF_FRAMES if tokenizers.frames else _CHUNK):
                    readable, rows = encode(chunk, tokenizers, threads, report, trees=trees)
                    writer.append(fit(readable, rows, limits=limits, long=long, report=report))
                    if on_progress:
                        on_progress(len(chunk))
            report.save(partial / _REPORT)
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> TokenStore:
        """The store in that folder."""
        meta = _complete_meta(folder)
        if meta is None:
            raise SeqloomError(
                f"The token store {folder} is incomplete or damaged.",
                "delete that folder; it is written again from the data",
            )
        return cls(folder, meta)

    @staticmethod
    def is_complete(folder: Path) -> bool:
        """Whether a store was written there and all its files have their full size."""
        return _complete_meta(folder) is not None


def cache_key(*parts: str) -> str:
    """A hash of all that a store depends on."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode()).digest())  # of equal width: ("ab", "c") is not ("a", "bc")
    return digest.hexdigest()


class _Writer:
    """Appends to the files of both sides and of the trees; describes them in meta.json when all went well."""

    def __init__(self, folder: Path, tokenizers: TokenizerPair, *, trees: bool) -> None:
        self._folder = folder
        self._fingerprint = tokenizers.fingerprint
        self._features = tokenizers.reader.size if tokenizers.frames else 0
        self._dtypes = {"source": _dtype(tokenizers.reader), "target": _dtype(tokenizers.target)}
        if trees:
            self._dtypes["heads"] = np.dtype("<i4")
        self._ends = dict.fromkeys(self._dtypes, 0)
        self._count = 0
        self._files: dict[str, IO[bytes]] = {}

    def __enter__(self) -> _Writer:
        for name in (f"{side}.{kind}" for side in self._ends for kind in ("bin", "idx")):
            self._files[name] = open(self._folder / name, "wb")
        for side in self._ends:
            self._files[f"{side}.idx"].write(np.zeros(1, _OFFSET).tobytes())
        return self

    def append(self, pairs: Sequence[Ids]) -> None:
        for place, side in enumerate(self._ends):
            rows = [pair[place] for pair in pairs]
            ends = self._ends[side] + np.cumsum([len(row) for row in rows], dtype=_OFFSET)
            self._files[f"{side}.bin"].write(_bytes(rows, self._dtypes[side]))
            self._files[f"{side}.idx"].write(ends.tobytes())
            self._ends[side] += sum(map(len, rows))
        self._count += len(pairs)

    def __exit__(self, kind: object, *_: object) -> None:
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        if kind is None:
            self._describe()

    def _describe(self) -> None:
        meta = {
            "count": self._count,
            "features": self._features,
            "tokens": self._ends,
            "dtypes": {side: dtype.str for side, dtype in self._dtypes.items()},
            "tokenizers": self._fingerprint,
            "bytes": {name: (self._folder / name).stat().st_size for name in self._files},
        }
        with open(self._folder / "meta.json", "w", encoding="utf-8") as file:
            json.dump(meta, file, indent=2)
            file.flush()
            os.fsync(file.fileno())


def _bytes(rows: Sequence[Row], dtype: np.dtype[Any]) -> bytes:
    if dtype.kind == "f":
        return b"".join(np.asarray(row, dtype).tobytes() for row in rows)
    return np.fromiter(chain.from_iterable(rows), dtype).tobytes()


def _chunks(examples: Iterable[Example], size: int) -> Iterator[list[Example]]:
    iterator = iter(examples)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _dtype(tokenizer: Tokenizer | FrameReader) -> np.dtype[Any]:
    if isinstance(tokenizer, FrameReader):
        return np.dtype("<f4")
    return np.dtype("<u2" if tokenizer.size <= 2**16 else "<u4")


def _map(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")


def _complete_meta(folder: Path) -> dict[str, Any] | None:
    try:
        meta: dict[str, Any] = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        complete = all((folder / name).stat().st_size == size for name, size in meta["bytes"].items())
        complete = complete and (folder / _REPORT).is_file()
    except (OSError, ValueError, KeyError):
        return None
    return meta if complete else None
