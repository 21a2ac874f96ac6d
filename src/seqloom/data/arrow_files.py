"""Rows of Arrow files, such as those of a Hugging Face dataset that was saved to disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.errors import SeqloomError
from seqloom.files import is_special, read_object

_ROWS = 1024  # converted at a time
_MAGIC = b"ARROW1"  # of the file format
STATE, _SPLITS = "state.json", "dataset_dict.json"


class ArrowTable(NamedTuple):
    """Columns of a file, those with text, and all rows as dicts."""

    names: list[str]
    texts: list[str]
    rows: Iterator[dict[str, Any]]


def load_pyarrow(path: str) -> Any:
    """Return pyarrow; raise an error that names the extra if it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        hint = "pip install 'seqloom[data]'"
        raise SeqloomError(f"Reading {path} requires pyarrow, which is not installed.", hint) from error
    return pyarrow


def open_arrow(path: str) -> ArrowTable:
    """Return the content of an Arrow file in the stream or file format; it is mapped, not loaded."""
    pyarrow = load_pyarrow(path)
    if path == "-" or is_special(path):
        raise SeqloomError(f"Cannot read Arrow from {path}, which is a stream.", "use a file")
    try:
        batches = _batches(pyarrow, path)
        schema = next(batches)
    except FileNotFoundError as error:
        raise SeqloomError(f"The file {path} does not exist.", "check the path") from error
    except (pyarrow.ArrowException, OSError, MemoryError, ValueError) as error:
        raise SeqloomError(f"{path} is not an Arrow file.", "check the file and data.format") from error
    texts = [field.name for field in schema if str(field.type) in ("string", "large_string", "string_view")]
    return ArrowTable(schema.names, texts, _rows(pyarrow, path, batches))


def _batches(pyarrow: Any, path: str) -> Iterator[Any]:
    """Yield the schema, and then the record batches."""
    with pyarrow.memory_map(path) as source:
        if source.read(len(_MAGIC)) == _MAGIC:
            file = pyarrow.ipc.open_file(source)
            yield file.schema
            for number in range(file.num_record_batches):
                yield file.get_batch(number)
        else:
            source.seek(0)
            reader = pyarrow.ipc.open_stream(source)
            yield reader.schema
            yield from reader


def _rows(pyarrow: Any, path: str, batches: Iterator[Any]) -> Iterator[dict[str, Any]]:
    number = 0
    try:
        for batch in batches:
            batch.validate(full=True)  # offsets of a damaged file may point outside its buffers
            for start in range(0, batch.num_rows, _ROWS):
                for row in batch.slice(start, _ROWS).to_pylist():
                    number += 1
                    yield row
    except (pyarrow.ArrowException, OSError, MemoryError, ValueError) as error:
        raise SeqloomError(
            f"{path} is damaged after row {number}.", "download or write the file again"
        ) from error


def dataset_files(folder: Path) -> list[str] | None:
    """Return the data files of a Hugging Face dataset saved in a folder; None if it is another folder."""
    if (folder / _SPLITS).is_file():
        splits = sorted(part.name for part in folder.iterdir() if (part / STATE).is_file())
        raise SeqloomError(
            f"{folder} is a dataset with the splits {', '.join(splits) or '(none)'}.",
            f"name one of them, e.g. {folder / (splits or ['train'])[0]}",
        )
    if not (folder / STATE).is_file():
        return None
    listed = read_object(folder / STATE).get("_data_files")
    entries = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    names = [str(one.get("filename")) for one in entries]
    if not names or any(Path(name).name != name for name in names):
        raise SeqloomError(
            f"{folder / STATE} does not list the data files of a dataset.", "save the dataset again"
        )
    return [str(folder / name) for name in names]
