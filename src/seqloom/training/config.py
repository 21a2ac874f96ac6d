"""Training options."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from seqloom.settings import Settings
from seqloom.system import MOST_THREADS

_LIMITS = ("max_steps", "max_minutes", "max_epochs")
_DEFAULT_EPOCHS = 30  # if no limit is given


def _names(value: object) -> object:
    """Return `bleu,chrf` as ("bleu", "chrf")."""
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


OptimizerName = Literal["adamw", "sgd"]
Beta = Annotated[float, Field(ge=0, lt=1)]


class TrainConfig(Settings):
    """Training options: limits, batches, optimizer, checkpoints, validation and machine."""

    seed: int = Field(1, ge=0, lt=2**63, description="random seed for weights, data order and dropout")
    init_from: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        (), description="run directories whose weights and tokenizers to start from"
    )
    max_steps: int | None = Field(
        None, ge=1, description="maximum number of updates; the first limit reached ends training"
    )
    max_minutes: float | None = Field(
        None, gt=0, description="maximum training time in minutes, including validation"
    )
    max_epochs: int | None = Field(
        None,
        ge=1,
        description=f"maximum number of passes over the data; {_DEFAULT_EPOCHS} if no limit is given",
    )
    batch_tokens: int = Field(
        4096, ge=1, description="batch size in tokens: rows x longest side, including padding"
    )
    accumulate: int = Field(1, ge=1, description="number of batches per update (gradient accumulation)")
    optimizer: OptimizerName = Field(
        "adamw", description="adamw, or sgd, which needs a learning rate about 100 times as high"
    )
    momentum: float = Field(
        0.0, ge=0, lt=1, description="momentum of sgd, v ← momentum v + gradient; 0 = plain gradient descent"
    )
    learning_rate: float = Field(1e-3, gt=0, description="peak learning rate")
    schedule: Literal["inverse-sqrt", "cosine", "linear", "constant"] = Field(
        "inverse-sqrt", description="learning-rate decay after the warm-up"
    )
    warmup: int = Field(400, ge=0, description="number of updates over which the learning rate rises linearly")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of matrices; biases and norms have none")
    betas: tuple[Beta, Beta] = Field(
        (0.9, 0.98), description="decay rates of Adam for the gradient and its square"
    )
    clip: float = Field(1.0, ge=0, description="maximum global gradient norm; 0 = no clipping")
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="probability mass spread evenly over the vocabulary"
    )
    word_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="fraction of source and decoder input tokens replaced by the unknown token in training",
    )
    rdrop: float = Field(
        0.0,
        ge=0,
        description="R-Drop: weight of the divergence between two passes with other dropout masks; 0 = off",
    )
    ema: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of the moving average of the weights, which is used for decoding; 0 = off",
    )
    average: int = Field(
        0, ge=0, description="number of last checkpoints to average at the end; kept if it is the best"
    )
    checkpoint_every: int = Field(500, ge=1, description="number of updates between checkpoints")
    keep: int = Field(3, ge=1, description="number of newest checkpoints to keep in addition to the best one")
    validate_every: int | None = Field(
        None, ge=1, description="number of updates between validations; None = at every checkpoint"
    )
    metrics: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        (), description="metrics to compute by decoding, e.g. bleu,chrf; the loss is always computed"
    )
    validate_lines: int = Field(500, ge=1, description="number of lines to decode for the metrics")
    validate_beam: int | None = Field(
        None, ge=1, description="beam size for the metrics; 1 is greedy and fastest; None = search.beam"
    )
    best_by: str = Field(
        "loss", description="loss or a metric, for choosing the best checkpoint and for early stopping"
    )
    patience: int | None = Field(
        None, ge=1, description="number of validations without improvement before early stopping; None = off"
    )
    device: str = Field("auto", description="auto, cpu or cuda")
    shard: bool = Field(
        False, description="shard weights, gradients and optimizer state over the processes (FSDP2)"
    )
    precision: Literal["float32", "bfloat16"] = Field("float32", description="precision of matrix products")
    threads: int | None = Field(
        None,
        ge=1,
        le=MOST_THREADS,
        description="number of CPU threads; None = all; use fewer if other programs are running",
    )
    log_every: int = Field(50, ge=1, description="number of updates between reports")
    tensorboard: bool = Field(False, description="also write TensorBoard files")
    max_nonfinite: int = Field(
        20, ge=1, description="number of skipped updates in a row (gradient not finite) that ends training"
    )

    @model_validator(mode="before")
    @classmethod
    def _default_limit(cls, given: object) -> object:
        if isinstance(given, dict) and all(given.get(limit) is None for limit in _LIMITS):
            return {**given, "max_epochs": _DEFAULT_EPOCHS}
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> TrainConfig:
        if self.best_by != "loss" and self.best_by not in self.metrics:
            raise ValueError(f"train.best_by={self.best_by} is not computed; add it to train.metrics")
        if self.average > self.keep:
            raise ValueError(
                f"train.average={self.average} is more than the kept checkpoints, train.keep={self.keep}"
            )
        if self.optimizer != "sgd" and self.momentum:
            raise ValueError(
                f"train.momentum={self.momentum} needs train.optimizer=sgd; {self.optimizer} has train.betas"
            )
        if self.optimizer != "adamw" and self.betas != TrainConfig.model_fields["betas"].default:
            raise ValueError(
                f"train.betas are options of adamw, not of train.optimizer={self.optimizer}; set train.momentum"
            )
        if self.shard and self.optimizer == "sgd":  # torch has no sharded version of its fused kernel
            raise ValueError("train.shard does not support train.optimizer=sgd; use train.optimizer=adamw")
        if self.shard and self.ema:
            raise ValueError("train.shard does not support train.ema; set train.ema=0")
        return self
