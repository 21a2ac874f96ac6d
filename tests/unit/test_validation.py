"""Validation by several processes: each takes its part, and the result is that of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom import pipeline
from seqloom.building import build_model
from seqloom.config import compose
from seqloom.corpus import Corpus
from seqloom.feeding import collator
from seqloom.team import Team
from seqloom.training.loop import Validation
from seqloom.validation import Validator

SETTINGS: dict[str, Any] = {
    "model.size": "tiny",
    "text.tokenizer": "word",
    "train.batch_tokens": 20,
    "train.metrics": "cer,exact",
    "train.validate_lines": 9,
    "train.best_by": "cer",
    "data.valid_share": 0.3,
    "search.beam": 2,
    "search.max_length_extra": 4,
    "search.max_length_factor": 0,
}


@dataclass(frozen=True)
class Member(Team):
    """One of a team whose members measure one after the other, the leader last."""

    heard: list[Any] = field(default_factory=list)

    def gathered(self, value: Any) -> list[Any]:
        self.heard.append(value)
        return [value, *self.heard[:-1]] if self.leads else []


@pytest.fixture
def validator(tmp_path: Path) -> Callable[..., Validator]:
    """validator(team, stop=...): one that measures the same weights for every team."""
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{i % 7} {'1 ' * (i % 4)}{i % 5}\t{i % 7}\n" for i in range(60)))
    config = compose(values={**SETTINGS, "data.train": str(table)})
    run = pipeline.create(config, tmp_path / "run", quiet=True)
    prepared = Corpus(config.data, config.text).reopen(run)
    model = build_model(config, prepared.tokenizers).eval()

    def make(team: Team, stop: Callable[[], bool] = lambda: False) -> Validator:
        make_batch = collator(config, prepared)
        return Validator(model, config, prepared, make_batch, torch.device("cpu"), stop, team)

    return make


@pytest.mark.parametrize("size", [2, 3, 20])
def test_the_parts_of_several_processes_are_the_whole(validator: Callable[..., Validator], size: int) -> None:
    alone = validator(Team())()
    heard: list[Any] = []
    others = [validator(Member(rank, size, heard))() for rank in range(1, size)]
    together = validator(Member(0, size, heard))()
    assert others == [None] * (size - 1)
    assert isinstance(alone, Validation) and isinstance(together, Validation)
    assert together.metrics == pytest.approx(alone.metrics, rel=1e-5)
    assert together.goal == -together.metrics["cer"]
    lines = [len(part.answers) for part in heard]
    assert sum(lines) == 9 and max(lines) - min(lines) <= 1


def test_if_one_is_stopped_nothing_is_measured_and_nobody_is_waited_for(
    validator: Callable[..., Validator],
) -> None:
    heard: list[Any] = []
    assert validator(Member(1, 2, heard), lambda: True)() is None
    assert heard == [None]
    assert validator(Member(0, 2, heard))() is None
