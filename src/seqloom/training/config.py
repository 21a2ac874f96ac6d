"""The options of training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from seqloom.settings import Settings


class TrainConfig(Settings):
    seed: int = Field(default=1, ge=0)
    # How long: whichever limit comes first. `max_epochs` counts passes over the training data.
    max_steps: int | None = Field(default=None, ge=1)
    max_minutes: float | None = Field(default=None, gt=0)
    max_epochs: int | None = Field(default=None, ge=1)
    # What an update sees: padded tokens of the longer side, and how many such batches add up to one update.
    batch_tokens: int = Field(default=4096, ge=1)
    accumulate: int = Field(default=1, ge=1)
    # How an update moves.
    learning_rate: float = Field(default=1e-3, gt=0)
    schedule: Literal["inverse-sqrt", "cosine", "linear", "constant"] = "inverse-sqrt"
    warmup: int = Field(default=400, ge=0)
    weight_decay: float = Field(default=0.0, ge=0)
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = Field(default=1.0, ge=0)  # of the gradient's global norm; 0 turns it off
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    # Which weights are kept: a moving average of all (ema), the mean of the last n checkpoints (average).
    ema: float = Field(default=0.0, ge=0, lt=1)
    average: int = Field(default=0, ge=0)
    checkpoint_every: int = Field(default=500, ge=1)
    keep: int = Field(default=3, ge=1)
    # Measured on the validation part, in steps (None: at every checkpoint).
    validate_every: int | None = Field(default=None, ge=1)
    metrics: tuple[str, ...] = ()  # by decoding, e.g. bleu, chrf, per; the loss is always measured
    validate_lines: int = Field(default=500, ge=1)  # how many lines are decoded for the metrics
    best_by: str = "loss"  # the metric that chooses the best checkpoint and stops early
    patience: int | None = Field(default=None, ge=1)  # validations without improvement before stopping
    # The machine.
    device: str = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"
    threads: int | None = Field(default=None, ge=1)
    log_every: int = Field(default=50, ge=1)
    tensorboard: bool = False
    max_nonfinite: int = Field(default=20, ge=1)  # updates in a row with a non-finite gradient

    @model_validator(mode="before")
    @classmethod
    def _default_limit(cls, given: object) -> object:
        limits = ("max_steps", "max_minutes", "max_epochs")
        if isinstance(given, dict) and all(given.get(limit) is None for limit in limits):
            return {**given, "max_epochs": 30}
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> TrainConfig:
        if self.best_by != "loss" and self.best_by not in self.metrics:
            raise ValueError(f"train.best_by={self.best_by} is not measured; add it to train.metrics")
        if self.average > self.keep:
            raise ValueError(
                f"train.average={self.average} needs as many kept checkpoints, but train.keep={self.keep}"
            )
        return self
