"""The options of training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from seqloom.settings import Settings
from seqloom.system import MOST_THREADS

_LIMITS = ("max_steps", "max_minutes", "max_epochs")
_DEFAULT_EPOCHS = 30  # when no limit is given at all


def _names(value: object) -> object:
    """`bleu,chrf` as ("bleu", "chrf")."""
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


Beta = Annotated[float, Field(ge=0, lt=1)]


class TrainConfig(Settings):
    """How long, what an update sees, how it moves, which weights are kept, and what is measured."""

    seed: int = Field(1, ge=0, lt=2**63, description="of the weights, the order of the data and dropout")
    init_from: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        (), description="run directories whose weights (and tokenizers) the run starts from"
    )
    max_steps: int | None = Field(None, ge=1, description="updates; the first limit reached ends the run")
    max_minutes: float | None = Field(None, gt=0, description="minutes, validation included")
    max_epochs: int | None = Field(
        None, ge=1, description=f"passes over the data; {_DEFAULT_EPOCHS} when no limit is given"
    )
    batch_tokens: int = Field(4096, ge=1, description="rows x longest side of a batch, padding included")
    accumulate: int = Field(1, ge=1, description="batches that add up to one update")
    learning_rate: float = Field(1e-3, gt=0, description="its peak")
    schedule: Literal["inverse-sqrt", "cosine", "linear", "constant"] = Field(
        "inverse-sqrt", description="how the rate falls after the warm-up"
    )
    warmup: int = Field(400, ge=0, description="updates over which the rate rises")
    weight_decay: float = Field(0.0, ge=0, description="of matrices, not of biases and norms")
    betas: tuple[Beta, Beta] = Field((0.9, 0.98), description="Adam's averages of gradient and square")
    clip: float = Field(1.0, ge=0, description="the largest global norm of the gradient; 0 = no limit")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability spread over the vocabulary")
    ema: float = Field(0.0, ge=0, lt=1, description="decay of a moving average of the weights, served if > 0")
    average: int = Field(0, ge=0, description="at the end, try the mean of the last n checkpoints")
    checkpoint_every: int = Field(500, ge=1, description="updates between checkpoints")
    keep: int = Field(3, ge=1, description="newest checkpoints kept beside the best one")
    validate_every: int | None = Field(None, ge=1, description="updates; None = at every checkpoint")
    metrics: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        (), description="measured by decoding, e.g. bleu,chrf; the loss is always measured"
    )
    validate_lines: int = Field(500, ge=1, description="how many lines are decoded for the metrics")
    best_by: str = Field("loss", description="loss or a metric: chooses the best checkpoint, stops early")
    patience: int | None = Field(None, ge=1, description="validations without improvement before stopping")
    device: str = Field("auto", description="auto, cpu or cuda")
    shard: bool = Field(
        False, description="each process holds a slice of weights, gradients and moments (FSDP2), not all"
    )
    precision: Literal["float32", "bfloat16"] = Field("float32", description="of the matrix products")
    threads: int | None = Field(
        None, ge=1, le=MOST_THREADS, description="of the CPU; None = all, fewer beside other programs"
    )
    log_every: int = Field(50, ge=1, description="updates between reports")
    tensorboard: bool = Field(False, description="write TensorBoard files too")
    max_nonfinite: int = Field(20, ge=1, description="skipped updates in a row that end the run")

    @model_validator(mode="before")
    @classmethod
    def _default_limit(cls, given: object) -> object:
        if isinstance(given, dict) and all(given.get(limit) is None for limit in _LIMITS):
            return {**given, "max_epochs": _DEFAULT_EPOCHS}
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> TrainConfig:
        if self.best_by != "loss" and self.best_by not in self.metrics:
            raise ValueError(f"train.best_by={self.best_by} is not measured; add it to train.metrics")
        if self.average > self.keep:
            raise ValueError(
                f"train.average={self.average} needs as many kept checkpoints, but train.keep={self.keep}"
            )
        if self.shard and self.ema:
            raise ValueError("train.shard keeps no moving average of the weights; leave train.ema at 0")
        return self
