"""Validation data and the metric for tuning."""

from __future__ import annotations

from seqloom.data.corpus import Corpus
from seqloom.data.testset import TestSet
from seqloom.errors import SeqloomError
from seqloom.run.directory import Run
from seqloom.training.config import TrainConfig

DEFAULT_METRIC = "chrf"  # unlike BLEU, it is not 0 for outputs of less than four words


def metric_of(train: TrainConfig, default: str = DEFAULT_METRIC) -> str:
    """Return the metric that chooses the best checkpoint; if that is the loss, the first one computed."""
    return train.best_by if train.best_by != "loss" else next(iter(train.metrics), default)


def validation_data(run: Run) -> TestSet:
    """Return the validation part of a run; raise if it has none."""
    data = run.config().data
    if not data.has("train"):
        raise SeqloomError(f"{run.folder} was imported, so it has no validation data.", _GIVE_DATA)
    prepared = Corpus(data, run.config().text).reopen(run.data_record(), run.tokenizers())
    if prepared.valid_part != "valid":
        raise SeqloomError(
            f"{run.folder} has no validation data: its corpus is too small to hold out a part.", _GIVE_DATA
        )
    examples = list(prepared.valid_examples())
    return TestSet(
        name="the validation data of the run",
        sources=[example.source for example in examples],
        references=[[example.target or ""] for example in examples],
        heads=[example.heads for example in examples],
    )


_GIVE_DATA = "give validation pairs: a table for tune search, --valid for tuning training options"
