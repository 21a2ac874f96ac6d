"""Table of corrected translations, which `seqloom train` reads."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from seqloom.files import write_all
from seqloom.serve.errors import ApiError
from seqloom.strict_json import json_text


class Suggestion(NamedTuple):
    """A text, its suggested translation, and their languages."""

    source: str
    target: str
    source_language: str
    target_language: str


class SuggestionTable:
    """TSV or JSONL file with the columns source, target, source_language and target_language."""

    def __init__(self, path: str) -> None:
        self._path, self._lock = Path(path), Lock()

    def append(self, suggestion: Suggestion) -> None:
        """Append a row and force it to the disk; raise ApiError and leave the table as it was if that fails."""
        with self._lock:
            try:
                self._append(suggestion)
            except OSError as error:
                raise ApiError(503, "The suggestion cannot be stored.", "storage", retry_after=60.0) from error

    def _append(self, suggestion: Suggestion) -> None:
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            size = os.fstat(handle).st_size
            header = "" if size else self._header()
            try:
                write_all(handle, (header + self._row(suggestion)).encode())
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, size)  # never half a row
                raise
        finally:
            os.close(handle)

    @property
    def _is_tsv(self) -> bool:
        return self._path.suffix == ".tsv"

    def _header(self) -> str:
        return "\t".join(Suggestion._fields) + "\n" if self._is_tsv else ""

    def _row(self, suggestion: Suggestion) -> str:
        if self._is_tsv:  # a cell has no tabs and line ends
            return "\t".join(" ".join(value.split()) for value in suggestion) + "\n"
        return json_text(suggestion._asdict()) + "\n"
