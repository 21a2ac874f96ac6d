"""Stored results of labs, one file per lab and settings, found again by both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seqloom import __version__
from seqloom.errors import SeqloomError
from seqloom.files import write_json
from seqloom.labs.framework.discovery import labs
from seqloom.labs.framework.lab import Judgement, Lab, Numbers
from seqloom.settings import Settings


@dataclass(frozen=True)
class LabResult:
    """Numbers of a lab and the settings that gave them."""

    lab: Lab[Any, Any]
    settings: Settings
    numbers: Numbers
    seconds: float  # processor time
    finished: str  # UTC
    version: str = __version__

    @property
    def judgement(self) -> Judgement:
        return self.lab.judge(self.numbers)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with the verdict for readers; it is computed again when the result is read."""
        judgement = self.judgement
        return {
            "lab": self.lab.name,
            "version": self.version,
            "finished": self.finished,
            "seconds": round(self.seconds, 2),
            "verdict": judgement.verdict.value,
            "reason": judgement.reason,
            "settings": self.settings.model_dump(mode="json"),
            "numbers": self.numbers.model_dump(mode="json"),
        }


class ResultStore:
    """Folder of results. A result that cannot be read, or is from another version, counts as absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, lab: Lab[Any, Any], settings: Settings) -> LabResult | None:
        """Return the result of a lab with exactly these settings."""
        return self._read(self._path(lab, settings))

    def add(self, result: LabResult) -> None:
        """Write a result."""
        self.create_folder()
        write_json(self._path(result.lab, result.settings), result.to_dict())

    def create_folder(self) -> None:
        """Create the folder; raise an error if this is not possible."""
        if self.folder.exists() and not self.folder.is_dir():
            raise SeqloomError(f"{self.folder} is a file, not a folder.", "choose another --out")
        self.folder.mkdir(parents=True, exist_ok=True)

    def latest(self) -> dict[str, LabResult]:
        """Return the last finished result of every lab that has one, in the order of the labs."""
        found: dict[str, LabResult] = {}
        for result in sorted(self._all(), key=lambda one: one.finished):
            found[result.lab.name] = result
        return {name: found[name] for name in labs() if name in found}

    def _all(self) -> Iterator[LabResult]:
        for path in sorted(self.folder.glob("*.json")):
            if result := self._read(path):
                yield result

    def _path(self, lab: Lab[Any, Any], settings: Settings) -> Path:
        key = json.dumps([__version__, settings.model_dump(mode="json")], sort_keys=True)
        return self.folder / f"{lab.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"

    def _read(self, path: Path) -> LabResult | None:
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            lab = labs()[stored["lab"]]
            return LabResult(
                lab,
                lab.settings.model_validate(stored["settings"]),
                lab.numbers.model_validate(stored["numbers"]),
                float(stored["seconds"]),
                str(stored["finished"]),
                str(stored["version"]),
            )
        except (OSError, ValueError, KeyError, TypeError, ValidationError):
            return None


def now() -> str:
    """Return the time in UTC, to be stored with a result."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
