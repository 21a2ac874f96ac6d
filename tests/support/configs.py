"""Settings of runs that are as small as possible, and of one that learns to copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Settings = Mapping[str, Any]

WORDS: Settings = {"text.tokenizer": "word", "text.byte_fallback": False}
TINY_TRANSFORMER: Settings = {
    "model.size": "tiny",
    "model.width": 16,
    "model.heads": 2,
    "model.ffn": 16,
    "model.layers": 1,
}
TINY_FITTED: Settings = {"model.size": "tiny", **WORDS, "data.valid_share": 0.2, "train.threads": 1}
TINY: Settings = {**TINY_FITTED, **TINY_TRANSFORMER}
TINY_RECURRENT: Settings = {**TINY_FITTED, "model.width": 16}
FOUR_STEPS: Settings = {"train.max_steps": 4, "train.checkpoint_every": 2, "train.log_every": 2}
# The outputs of a model that has learned nothing do not end.
SHORT_OUTPUTS: Settings = {"search.beam": 1, "search.max_length_factor": 0, "search.max_length_extra": 2}
# Learns to copy up to ten digits in a few seconds on one core.
LEARNER: Settings = {
    **WORDS,
    "model.width": 64,
    "model.dropout": 0,
    "train.batch_tokens": 600,
    "train.learning_rate": 0.005,
    "train.warmup": 50,
    "train.schedule": "cosine",
    "train.label_smoothing": 0,
    "train.checkpoint_every": 200,
    "train.threads": 1,
}


def flags(settings: Settings) -> list[str]:
    """Return the --set flags of these settings."""
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def learner_flags(settings: Settings) -> list[str]:
    """Return the flags of the run that learns to copy, with other settings changed or added."""
    return flags({**LEARNER, **settings})
