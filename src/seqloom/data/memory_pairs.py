"""Pairs in memory, which are kept in a file: training reads data more than once, and can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from seqloom.errors import SeqloomError, quoted
from seqloom.system import make_cache_folder, only_cache_writer

Files = str | Path | Sequence[str | Path]


def file_of(data: Files | Iterable[object] | None, *, keep_names: bool = False) -> Files | None:
    """Return data if it is the names of files, and otherwise the name of a file with its pairs.

    Pairs are tuples (source, target), dicts such as {"source": ..., "target": ...}, or the rows of a DataFrame
    of pandas or polars or of a table of pyarrow. Two columns are source and target, unless `keep_names` is set.
    """
    if data is None or isinstance(data, str | Path):
        return data
    if isinstance(data, Sequence) and all(isinstance(one, str | Path) for one in data):
        return data
    return _keep(_objects(data, keep_names=keep_names))


def _objects(data: Any, *, keep_names: bool) -> Iterator[Mapping[str, object]]:
    """Yield an object with named values for each pair."""
    for number, row in enumerate(_rows(data, keep_names=keep_names), 1):
        if isinstance(row, Mapping):
            yield {str(key): value for key, value in row.items()}
        elif isinstance(row, Sequence) and not isinstance(row, str) and len(row) == 2:
            yield {"source": row[0], "target": row[1]}
        else:
            raise SeqloomError(
                f"Item {number} of the data is not a pair: {quoted(row)}.",
                "give (source, target) tuples, or dicts with the keys source and target",
            )


def _rows(data: Any, *, keep_names: bool) -> Iterable[object]:
    """Return the rows of a table as dicts, and anything else as it is."""
    if hasattr(data, "iter_rows"):  # polars
        return _named(data.columns, data.iter_rows(), keep_names)
    if hasattr(data, "itertuples"):  # pandas
        return _named(list(data.columns), data.itertuples(index=False, name=None), keep_names)
    if hasattr(data, "to_batches"):  # pyarrow
        rows = (row.values() for batch in data.to_batches() for row in batch.to_pylist())
        return _named(data.column_names, map(tuple, rows), keep_names)
    if isinstance(data, Iterable):
        return data
    raise SeqloomError(
        f"The data is neither files nor pairs: {quoted(data)}.", "give file names, or (source, target) tuples"
    )


def _named(
    columns: Sequence[object], rows: Iterable[Sequence[object]], keep_names: bool
) -> Iterator[Mapping[str, object]]:
    names = [str(name) for name in columns]
    if len(names) == 2 and not keep_names and set(names) != {"source", "target"}:
        names = ["source", "target"]
    for row in rows:
        yield dict(zip(names, row, strict=True))


def _keep(objects: Iterator[Mapping[str, object]]) -> str:
    """Write JSON lines to the cache, under the checksum of their content, and return the path."""
    folder, digest = make_cache_folder("pairs"), hashlib.sha256()
    entry = folder / uuid4().hex
    with only_cache_writer(entry):
        draft = entry.with_name(f".{entry.name}.tmp")
        with draft.open("wb") as file:
            for one in objects:
                line = f"{json.dumps(one, default=str)}\n".encode()
                digest.update(line)
                file.write(line)
        path = folder / f"{digest.hexdigest()}.jsonl"
        draft.replace(path)
    return str(path)
