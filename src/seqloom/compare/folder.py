"""Files of a comparison, and the records in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from seqloom.compare.settings import CompareSettings
from seqloom.errors import SeqloomError
from seqloom.files import read_sealed, sealed, write_json
from seqloom.run.config import Config, from_tree
from seqloom.run.directory import Run
from seqloom.settings import Settings
from seqloom.text.pair import TokenizerPair


class System(Settings):
    """One run of a comparison: a model and a seed."""

    name: str  # of its run directory
    label: str  # of the model; the same for all seeds
    seed: int
    fitted: bool  # by counting or EM: the budget does not apply
    tokenizer: str
    seconds: float | None  # predicted training time; None for a fitted model
    config: dict[str, Any]


class PartSizes(Settings):
    """Number of pairs in each part of the data."""

    train: int
    valid: int
    test: int


class Setup(Settings):
    """Content of compare.json: everything that is decided before the first model is trained."""

    settings: CompareSettings
    sums: dict[str, str]  # data file → sha256
    sizes: PartSizes
    metrics: list[str]
    machine: dict[str, Any]
    created: str
    systems: list[System]


class Training(Settings):
    """Result of training or fitting a system."""

    seconds: float
    steps: int
    target_tokens: int
    tokens_per_second: float | None
    parameters: int
    memory_mb: float
    ended: str
    findings: list[dict[str, str]]


class Decoding(Settings):
    """Outputs of a system for the test part."""

    texts: list[str]
    seconds: float
    engine: str
    beam: int
    valid_score: float | None  # of a fitted model, which has no learning curve


class Failure(Settings):
    """Why a system has no result."""

    message: str
    hint: str
    findings: list[dict[str, str]]


_Record = TypeVar("_Record", Training, Decoding, Failure)


@dataclass(frozen=True)
class ComparisonFolder:
    """The folder of a comparison."""

    path: Path

    @property
    def setup_file(self) -> Path:
        return self.path / "compare.json"

    @property
    def results_file(self) -> Path:
        return self.path / "results.json"

    @property
    def page_file(self) -> Path:
        return self.path / "report.html"

    def part(self, name: str) -> Path:
        """Return the file of the part train, valid or test."""
        return self.path / "data" / f"{name}.jsonl"

    def tokenizer(self, name: str) -> Path:
        return self.path / "tokenizers" / name

    def run(self, system: System) -> Run:
        return Run(self.path / "runs" / system.name)

    def record_file(self, system: System, kind: str) -> Path:
        """Return the file of a training, a decoding or a failure."""
        return self.path / "measured" / f"{system.name}.{kind}.json"

    def write(self, system: System, record: Training | Decoding | Failure) -> None:
        """Write a record; it appears when it is complete."""
        file = self.record_file(system, type(record).__name__.lower())
        file.parent.mkdir(exist_ok=True)
        write_json(file, sealed(record.model_dump(mode="json")))

    def training(self, system: System) -> Training | None:
        return self._read(system, Training)

    def decoding(self, system: System) -> Decoding | None:
        return self._read(system, Decoding)

    def failure(self, system: System) -> Failure | None:
        return self._read(system, Failure)

    def _read(self, system: System, kind: type[_Record]) -> _Record | None:
        file = self.record_file(system, kind.__name__.lower())
        return kind.checked(read_sealed(file), "record", str(file)) if file.is_file() else None

    def is_done(self, system: System) -> bool:
        """Return whether a system has a result, which may be a failure."""
        return any(self.record_file(system, kind).is_file() for kind in ("decoding", "failure"))

    def setup(self) -> Setup:
        """Return what was decided before training; raise if the folder is not a comparison."""
        if not self.setup_file.is_file():
            raise SeqloomError(f"{self.path} is not a comparison: it has no compare.json.")
        return Setup.checked(read_sealed(self.setup_file), "compare", str(self.setup_file))

    def config(self, system: System) -> Config:
        """Return the configuration of a system."""
        return from_tree(system.config, str(self.setup_file))

    def tokenizers(self, system: System) -> TokenizerPair:
        return TokenizerPair.load(self.tokenizer(system.tokenizer))
