"""Results of long work in a file that grows by chunks, so that interrupted work continues where it stopped."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.files import write_all, write_atomically
from seqloom.strict_json import json_text

logger = logging.getLogger(__name__)


class Journal:
    """File of finished chunks. Its first line holds the settings of the work, every other line one chunk.

    The file is created with the first chunk, and a chunk is forced to the disk before `append` returns. A line
    that was cut off by a crash is removed when the journal is opened; its chunk is computed again. `items` is
    the number of results in all chunks. If the journal was started with other settings, the error message names
    `work`, the file or folder that the user can remove (default: the journal).
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, work: Path | None = None) -> None:
        self.path, self._settings, self.items = path, settings, 0
        if path.exists():
            _check_settings(work or path, self._recorded_settings(), settings)
            _remove_incomplete_line(path)
            self.items = sum(map(len, self))

    def append(self, chunk: Sequence[Any]) -> None:
        """Add the results of a chunk."""
        if not self.path.exists():
            write_atomically(self.path, json_text({"settings": self._settings}) + "\n")
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            write_all(handle, (json_text(chunk) + "\n").encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        self.items += len(chunk)

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield the chunks in the order in which they were added."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            next(file)
            for number, line in enumerate(file, 2):
                chunk = self._parsed(line, number)
                if not isinstance(chunk, list):
                    raise self._damaged(number)
                yield chunk

    def results(self) -> Iterator[Any]:
        """Yield the results of all chunks."""
        for chunk in self:
            yield from chunk

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def _recorded_settings(self) -> Mapping[str, Any]:
        with self.path.open("rb") as file:
            first = self._parsed(next(file, b""), 1)
        if not isinstance(first, dict) or not isinstance(first.get("settings"), dict):
            raise self._damaged(1)
        settings: dict[str, Any] = first["settings"]
        return settings

    def _parsed(self, line: bytes, number: int) -> Any:
        try:
            return json.loads(line)
        except ValueError as error:
            raise self._damaged(number) from error

    def _damaged(self, number: int) -> SeqloomError:
        return SeqloomError(
            f"The file {self.path} is damaged at line {number}.", "remove it to start from the beginning"
        )


def _remove_incomplete_line(path: Path) -> None:
    """Remove what follows the last line end."""
    with path.open("rb") as file:
        complete = sum(len(line) for line in file if line.endswith(b"\n"))
    if complete < path.stat().st_size:
        logger.info(f"{path}: the last chunk is incomplete and is computed again")
        os.truncate(path, complete)


def _check_settings(work: Path, recorded: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise if the recorded settings of the work differ from these."""
    now: dict[str, Any] = json.loads(json_text(settings))
    differing = [name for name in {**recorded, **now} if recorded.get(name) != now.get(name)]
    if differing:
        raise SeqloomError(
            f"{work} was started with other settings: {', '.join(differing)}.",
            f"repeat the command with the same options and files, choose another --out, or remove {work}",
        )
