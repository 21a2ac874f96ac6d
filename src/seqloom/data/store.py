"""Tokenised pairs in memory-mapped files: written once, read without loading."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom.data.report import DataReport
from seqloom.data.syntax import cut_heads, token_heads
from seqloom.data.tables import Malformed
from seqloom.errors import SeqloomError
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import Example

Long = Literal["drop", "truncate", "error"]

_CHUNK = 20_000  # examples that are tokenised at a time
_OFFSET = np.dtype("<i8")
_SIDES = ("source", "target")
_REPORT = "data-report.json"


class TokenStore:
    """The ids of every pair, without BOS and EOS, and perhaps heads: the tree of each source.

    Nothing is in memory but what is asked for.
    """

    def __init__(self, folder: Path, meta: dict[str, Any]) -> None:
        self.folder = folder
        self.token_counts: dict[str, int] = meta["tokens"]
        self._count: int = meta["count"]
        dtypes: dict[str, str] = meta["dtypes"]
        self.ids = {side: _map(folder / f"{side}.bin", np.dtype(dtype)) for side, dtype in dtypes.items()}
        self.offsets = {side: _map(folder / f"{side}.idx", _OFFSET) for side in dtypes}

    def __len__(self) -> int:
        return self._count

    @property
    def report(self) -> DataReport:
        """What was left out or cut when the store was written."""
        return DataReport.load(self.folder / _REPORT)

    def source(self, i: int) -> NDArray[Any]:
        """The source ids of pair i."""
        return self._row("source", i)

    def target(self, i: int) -> NDArray[Any]:
        """The target ids of pair i."""
        return self._row("target", i)

    def lengths(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The source and the target lengths of the pairs from start to stop."""
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
        long: Long,
        trees: bool = False,
        on_progress: Callable[[int], None] | None = None,
        threads: int,
    ) -> TokenStore:
        """The store of these examples, which appears in `folder` complete or not at all.

        Whatever is left out or cut is in the store's own `report`; `on_progress` hears how many more examples
        have been read.
        """
        partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        report = DataReport()
        try:
            with _Writer(partial, tokenizers, trees=trees) as writer:
                for chunk in _chunks(examples):
                    rows: Iterable[Ids] = _encode(chunk, tokenizers, threads)
                    fitting = chunk
                    if trees:
                        fitting, rows = _with_heads(chunk, rows, tokenizers.source, report)
                    writer.append(_fit(fitting, rows, max_length=max_length, long=long, report=report))
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


Ids = tuple[list[int], ...]  # of the source, of the target, and perhaps the heads of the source's tokens


class _Writer:
    """Appends to the files of both sides and of the trees; describes them in meta.json when all went well."""

    def __init__(self, folder: Path, tokenizers: TokenizerPair, *, trees: bool) -> None:
        self._folder = folder
        self._fingerprint = tokenizers.fingerprint
        self._dtypes = {"source": _dtype(tokenizers.source), "target": _dtype(tokenizers.target)}
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
            ids = np.fromiter(chain.from_iterable(rows), self._dtypes[side])
            self._files[f"{side}.bin"].write(ids.tobytes())
            self._files[f"{side}.idx"].write(ends.tobytes())
            self._ends[side] += len(ids)
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
            "tokens": self._ends,
            "dtypes": {side: dtype.str for side, dtype in self._dtypes.items()},
            "tokenizers": self._fingerprint,
            "bytes": {name: (self._folder / name).stat().st_size for name in self._files},
        }
        with open(self._folder / "meta.json", "w", encoding="utf-8") as file:
            json.dump(meta, file, indent=2)
            file.flush()
            os.fsync(file.fileno())


def _encode(chunk: Sequence[Example], tokenizers: TokenizerPair, threads: int) -> Iterator[Ids]:
    """Source and target ids; a text without target is a target without source: what is to be learned."""
    sources = [example.source if example.target is not None else "" for example in chunk]
    targets = [example.source if example.target is None else example.target for example in chunk]
    return zip(
        tokenizers.source.encode_batch(sources, threads),
        tokenizers.target.encode_batch(targets, threads),
        strict=True,
    )


def _with_heads(
    chunk: Sequence[Example], ids: Iterable[Ids], tokenizer: Tokenizer, report: DataReport
) -> tuple[list[Example], list[Ids]]:
    """The examples whose trees fit their tokens, and their ids with the heads."""
    kept, rows = list[Example](), list[Ids]()
    for example, (source, target) in zip(chunk, ids, strict=True):
        try:
            heads = token_heads(tokenizer, source, example.heads or ())
        except Malformed as fault:
            report.drop(example, str(fault))
            continue
        kept.append(example)
        rows.append((source, target, heads))
    return kept, rows


def _fit(
    chunk: Sequence[Example],
    ids: Iterable[Ids],
    *,
    max_length: int,
    long: Long,
    report: DataReport,
) -> list[Ids]:
    """The pairs that are neither empty nor too long; longer ones are treated as `long` says."""
    kept: list[Ids] = []
    for example, (source, target, *trees) in zip(chunk, ids, strict=True):
        if not target or (not source and example.target is not None):
            side = "text" if example.target is None else "target" if source else "source"
            report.drop(example, f"{side} has no tokens")
            continue
        if len(source) > max_length or len(target) > max_length:
            side, length = ("source", len(source)) if len(source) > max_length else ("target", len(target))
            if example.target is None:
                side = "text"
            if long == "error":
                raise SeqloomError(
                    f"{example.file or 'The data'}, line {example.line}: the {side} has {length} tokens, "
                    f"more than data.max_length={max_length}.",
                    "raise data.max_length, or choose --long drop or --long truncate",
                )
            if long == "drop":
                report.drop(example, f"{side} longer than data.max_length={max_length} tokens")
                continue
            report.change(example, f"{side} cut to data.max_length={max_length} tokens")
            source, target = source[:max_length], target[:max_length]
            trees = [cut_heads(heads, max_length) for heads in trees]
        kept.append((source, target, *trees))
    return kept


def _chunks(examples: Iterable[Example]) -> Iterator[list[Example]]:
    iterator = iter(examples)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


def _dtype(tokenizer: Tokenizer) -> np.dtype[Any]:
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
