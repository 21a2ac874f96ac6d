"""A toy run: a model of two embeddings, five ragged batches per epoch, and a log in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.data.batching import collate_ids
from seqloom.nn.dropout import Dropout
from seqloom.training.checkpoint import Checkpoints
from seqloom.training.config import TrainConfig
from seqloom.training.trainer import Feed, Trainer, Validation
from seqloom.types import Batch

BATCHES = 5  # in an epoch


class Toy(nn.Module):
    """Predicts the next token from the last token and the first source token, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(12, 8)
        self.source = nn.Embedding(12, 8)
        self.dropout = Dropout(0.25)
        self.output = nn.Linear(8, 12)
        self.output.weight = self.table.weight

    def hidden(self, batch: Batch) -> Tensor:
        mixed: Tensor = self.table(batch.target_in) + self.source(batch.source[:, :1])
        dropped: Tensor = self.dropout(mixed.tanh())
        return dropped


class MemoryLog:
    """A log that keeps its records in memory."""

    def __init__(self) -> None:
        self.records: list[tuple[str, int, dict[str, Any]]] = []
        self.fractions: list[float] = []

    def progress(self, fraction: float, eta: float, values: dict[str, Any]) -> None:
        self.fractions.append(fraction)

    def record(self, kind: str, step: int, values: dict[str, Any]) -> None:
        self.records.append((kind, step, values))

    def steps(self, kind: str) -> list[int]:
        return [step for named, step, _ in self.records if named == kind]


def _batch(epoch: int, number: int) -> Batch:
    random = torch.Generator().manual_seed(100 * epoch + number)
    rows = 2 + number % 3
    lengths = torch.randint(1, 6, (rows, 2), generator=random).tolist()
    sides = [[torch.randint(4, 12, (n,), generator=random).tolist() for n in pair] for pair in lengths]
    return collate_ids([side[0] for side in sides], [side[1] for side in sides], range(rows))


def feed(epoch: int, used: int) -> Iterator[Feed]:
    """Yield endless batches, each determined by its position."""
    while True:
        for number in range(used + 1, BATCHES + 1):
            batch = _batch(epoch, number)
            yield Feed(epoch, number, batch, batch.target_tokens)
        epoch, used = epoch + 1, 0


@pytest.fixture
def toy() -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        torch.manual_seed(1)
        return Toy()

    return build


@pytest.fixture
def make_trainer(tmp_path: Path, toy: Callable[[], nn.Module]) -> Callable[..., Trainer]:
    """make_trainer(folder, feed=..., validate=..., stop=..., **options): a trainer of the toy model."""

    def make(folder: str = "run", **given: Any) -> Trainer:
        parts = {key: given.pop(key) for key in ("feed", "validate", "stop") if key in given}
        config = TrainConfig(**{"warmup": 2, "checkpoint_every": 4, "log_every": 1, **given})
        checkpoints = Checkpoints(tmp_path / folder / "checkpoints", config.keep)
        checkpoints.folder.mkdir(parents=True, exist_ok=True)
        return Trainer(
            toy(),
            config,
            feed=parts.get("feed", feed),
            batches_per_epoch=BATCHES,
            validate=parts.get("validate", lambda: Validation({"loss": 1.0}, -1.0)),
            checkpoints=checkpoints,
            log=MemoryLog(),
            stop=parts.get("stop", lambda: False),
            device=torch.device("cpu"),
        )

    return make
