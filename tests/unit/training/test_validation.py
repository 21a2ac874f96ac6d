"""Validation by several processes gives the result of one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.data.corpus import Corpus
from seqloom.data.loader import collator
from seqloom.decode.config import SearchConfig
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.distributed.process_group import ProcessGroup
from seqloom.run import train as pipeline
from seqloom.run.build import build_model
from seqloom.run.config import compose
from seqloom.training import validation
from seqloom.training.trainer import Validation
from seqloom.training.validation import Validator, _search_options
from seqloom.types import Request

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
class Member(ProcessGroup):
    """One of several processes that validate one after the other, the main process last."""

    gathered: list[Any] = field(default_factory=list)

    def gather(self, value: Any) -> list[Any]:
        self.gathered.append(value)
        return [value, *self.gathered[:-1]] if self.is_main else []


@pytest.fixture
def validator(tmp_path: Path) -> Callable[..., Validator]:
    """validator(group, stop=...): a Validator of the same weights for every group."""
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{i % 7} {'1 ' * (i % 4)}{i % 5}\t{i % 7}\n" for i in range(60)))
    config = compose(values={**SETTINGS, "data.train": str(table)})
    run = pipeline.create(config, tmp_path / "run", quiet=True)
    prepared = Corpus(config.data, config.text).reopen(run.data_record(), run.tokenizers())
    model = build_model(config, prepared.tokenizers).eval()

    def make(group: ProcessGroup, stop: Callable[[], bool] = lambda: False) -> Validator:
        make_batch = collator(config.data.noise, prepared.tokenizers, 1, in_place=False)
        return Validator(
            model, config.train, config.search, prepared, make_batch, torch.device("cpu"), stop, group
        )

    return make


@pytest.mark.parametrize("size", [2, 3, 20])
def test_the_results_of_several_processes_are_combined(validator: Callable[..., Validator], size: int) -> None:
    alone = validator(ProcessGroup())()
    gathered: list[Any] = []
    others = [validator(Member(rank, size, gathered))() for rank in range(1, size)]
    together = validator(Member(0, size, gathered))()
    assert others == [None] * (size - 1)
    assert isinstance(alone, Validation) and isinstance(together, Validation)
    assert together.metrics == pytest.approx(alone.metrics, rel=1e-5)
    assert together.goal == -together.metrics["cer"]
    lines = [len(part.outputs) for part in gathered]
    assert sum(lines) == 9 and max(lines) - min(lines) <= 1


def test_outputs_that_do_not_end_are_cut_by_the_length_of_their_reference(
    validator: Callable[..., Validator], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []
    decode = TorchTranslator.translate

    def record(self: TorchTranslator, requests: list[Request], options: SearchConfig, **others: Any) -> Any:
        limits.append(options.longest)
        return decode(self, requests, options, **others)

    monkeypatch.setattr(validation, "_BATCH", 4)
    monkeypatch.setattr(TorchTranslator, "translate", record)
    validator(ProcessGroup())()
    assert limits == [2 * 1 + 10] * 3  # references have one token; 9 lines, 4 at a time


def test_validation_has_a_beam_of_its_own() -> None:
    search = SearchConfig(beam=6, nbest=2, groups=3, diversity=0.5)
    assert _search_options(search, None) == search
    greedy = _search_options(search, 1)
    assert greedy == SearchConfig.checked(greedy.model_dump(), "search")
    assert (greedy.beam, greedy.nbest, greedy.groups) == (1, 1, 1)


def test_if_one_process_stops_there_is_no_result_and_no_waiting(
    validator: Callable[..., Validator],
) -> None:
    gathered: list[Any] = []
    assert validator(Member(1, 2, gathered), lambda: True)() is None
    assert gathered == [None]
    assert validator(Member(0, 2, gathered))() is None
