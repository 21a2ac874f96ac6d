"""Diagnosis of a run from its log, data and weights: problems, evidence and advice."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field
from torch import Tensor, nn

from seqloom.files import read_object
from seqloom.nn.multihead import AttentionHeads
from seqloom.run.build import load_model
from seqloom.run.directory import Run
from seqloom.settings import Settings
from seqloom.training.config import TrainConfig

# Thresholds of the findings. Each is a rule of thumb, so a finding always includes its evidence.
_RISE = 1.5  # times the lowest training loss
_CLIPPED = 0.5  # of the updates after the warm-up
_STUCK = 0.95  # of the first training loss
_OVERFIT = 1.05  # times the lowest validation loss
_IMPROVING = 0.99  # times the validation loss a quarter of the run earlier
_VANISHED = 1e-3  # of the largest gradient norm in a stack of layers
_PADDING = 0.25  # of a batch
_DROPPED = 0.05  # of the lines
_DEAD = 0.02  # of the median strength of all heads


@dataclass(frozen=True)
class Finding:
    """A problem, or a possible improvement."""

    problem: str
    evidence: str
    advice: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


class _DataCounts(Settings):
    """Fields of data-report.json that are checked."""

    model_config = ConfigDict(extra="ignore")

    total: int = 0
    dropped: int = 0
    counts: dict[str, int] = Field(default_factory=dict)


@dataclass(frozen=True)
class RunHistory:
    """Log, data report and weights of a run."""

    config: TrainConfig
    metrics: Sequence[Mapping[str, Any]]  # lines of metrics.jsonl
    data: Mapping[str, Any]  # data-report.json
    model: nn.Module  # with the weights of the best checkpoint

    @classmethod
    def of(cls, run: Run) -> RunHistory:
        """Return the log, the data report and the best weights of a run."""
        report = run.folder / "data-report.json"
        return cls(
            config=run.config().train,
            metrics=run.metrics(),
            data=read_object(report) if report.is_file() else {},
            model=load_model(run)[0],
        )

    @property
    def training(self) -> list[Mapping[str, Any]]:
        return [line for line in self.metrics if line["kind"] == "train"]

    @property
    def validation(self) -> list[Mapping[str, Any]]:
        return [line for line in self.metrics if line["kind"] == "valid" and line.get("loss") is not None]

    @property
    def failed_validation(self) -> list[Mapping[str, Any]]:
        """Validations whose loss, or metric that selects the best checkpoint, was not finite."""
        names = {"loss", self.config.best_by}
        lines = [line for line in self.metrics if line["kind"] == "valid"]
        return [line for line in lines if any(line[name] is None for name in names & line.keys())]


def diagnose(run: RunHistory | Run | str | Path) -> list[Finding]:
    """Return all findings about a run, or about the run in a folder."""
    if isinstance(run, str | Path):
        run = Run.open(run)
    history = RunHistory.of(run) if isinstance(run, Run) else run
    checks = (_learning_rate, _stuck, _validations, _fit, _gradients, _padding, _data, _numbers, _heads)
    return [finding for check in checks for finding in check(history)]


def _losses(lines: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the losses; null in the log means not finite."""
    return [math.inf if line.get("loss") is None else float(line["loss"]) for line in lines]


def _learning_rate(history: RunHistory) -> Iterator[Finding]:
    """Find signs of a learning rate that is too high: rising loss, skipped updates, spikes, clipping."""
    lines, config = history.training, history.config
    losses = _losses(lines)
    lower = f"use a lower train.learning_rate (it was {config.learning_rate:g}) or a longer train.warmup"
    if losses and losses[-1] > _RISE * min(losses):
        lowest = lines[losses.index(min(losses))]
        last = f"{losses[-1]:.3g}" if math.isfinite(losses[-1]) else "not finite"
        yield Finding(
            "The run diverged: the training loss rose again.",
            f"{min(losses):.3g} at step {lowest['step']:,}, {last} at step {lines[-1]['step']:,}",
            lower,
        )
    if skipped := sum(int(line.get("skipped") or 0) for line in lines):
        yield Finding(
            "Some updates were skipped because their gradient was not finite.",
            f"{skipped:,} of {lines[-1]['step']:,} updates",
            lower,
        )
    if spikes := [line for line in lines if line.get("spikes")]:
        yield Finding(
            "The loss or the gradient had spikes.",
            f"{sum(int(line['spikes']) for line in spikes):,} updates, first before step {spikes[0]['step']:,}",
            f"see log.txt for each spike; find bad pairs with `seqloom score`, or {lower}",
        )
    warm = [line.get("clipped") for line in lines if line["step"] > config.warmup]
    clipped = [fraction for fraction in warm if fraction is not None]
    if clipped and statistics.mean(clipped) > _CLIPPED:
        yield Finding(
            "Most gradients were clipped, so the step size does not follow the schedule.",
            f"{statistics.mean(clipped):.0%} of the updates after the warm-up, at train.clip={config.clip:g}",
            f"{lower}, or raise train.clip",
        )


def _stuck(history: RunHistory) -> Iterator[Finding]:
    losses = _losses(history.training)
    if len(losses) >= 5 and _STUCK * losses[0] < losses[-1] < _RISE * min(losses):
        yield Finding(
            "The model hardly learned anything.",
            f"the training loss went from {losses[0]:.3g} to {losses[-1]:.3g}",
            "try a higher train.learning_rate or fewer layers, or run `seqloom data check` to find wrong pairs",
        )


def _validations(history: RunHistory) -> Iterator[Finding]:
    if failed := history.failed_validation:
        count = sum(line["kind"] == "valid" for line in history.metrics)
        yield Finding(
            "The model diverged: validation results were not finite (NaN or infinity).",
            f"{len(failed):,} of {count:,} validations, first at step {failed[0]['step']:,}",
            f"train again with a lower train.learning_rate (it was {history.config.learning_rate:g}), a longer "
            "train.warmup, or train.clip=1",
        )


def _fit(history: RunHistory) -> Iterator[Finding]:
    """Find overfitting, or a run that ended too early."""
    checks = history.validation
    losses = _losses(checks)
    if len(losses) < 3:
        return
    best = losses.index(min(losses))
    if losses[-1] > _OVERFIT * losses[best]:
        yield Finding(
            "The model overfits: it still learns the training data, but the validation loss rises.",
            f"it was {losses[best]:.3g} at step {checks[best]['step']:,} and is {losses[-1]:.3g} at the end",
            "the best checkpoint is used anyway; for a better one, raise model.dropout, use a smaller model or "
            "more data, or stop early with train.patience",
        )
    before = losses[max(0, len(losses) * 3 // 4 - 1)]
    if best == len(losses) - 1 and losses[-1] < _IMPROVING * before:
        yield Finding(
            "The model was still improving when the run ended.",
            f"the validation loss fell from {before:.3g} to {losses[-1]:.3g} in the last quarter",
            "train longer (train.max_steps, train.max_minutes or train.max_epochs)",
        )


def _gradients(history: RunHistory) -> Iterator[Finding]:
    """Find layers of a stack, e.g. encoder.0, whose gradient is tiny compared with the others."""
    lines = [line["gradient_norms"] for line in history.training if line.get("gradient_norms")]
    if not lines:
        return
    typical = {name: statistics.median(line.get(name) or 0.0 for line in lines) for name in lines[-1]}
    stacks: dict[str, dict[str, float]] = {}
    for name, norm in typical.items():
        stack, _, number = name.rpartition(".")
        if number.isdecimal():
            stacks.setdefault(stack, {})[name] = norm
    for layers in stacks.values():
        largest = max(layers, key=lambda name: layers[name])
        for name, norm in layers.items():
            if norm < _VANISHED * layers[largest]:
                yield Finding(
                    f"The gradient vanishes in {name}.",
                    f"median norm {norm:.2g}, against {layers[largest]:.2g} in {largest}",
                    "keep model.residual=true and model.norm_place=before, or use fewer layers; "
                    "`seqloom inspect gradients` shows where it vanishes",
                )


def _padding(history: RunHistory) -> Iterator[Finding]:
    shares = [line["padding"] for line in history.training if line.get("padding") is not None]
    if shares and statistics.mean(shares) > _PADDING:
        yield Finding(
            "A large part of every batch is padding, which costs time for nothing.",
            f"{statistics.mean(shares):.0%} of the positions",
            "raise train.batch_tokens, so that lines of similar length share a batch, or lower data.max_length",
        )


def _data(history: RunHistory) -> Iterator[Finding]:
    found = _DataCounts.checked(history.data, "report", where="data-report.json")
    total, dropped = found.total, found.dropped
    if total and dropped > _DROPPED * total:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in list(found.counts.items())[:3])
        yield Finding(
            "Many lines of the training data were dropped.",
            f"{dropped:,} of {total:,}: {reasons}",
            "data-report.json lists them; check data.max_length and the column options",
        )


def _numbers(history: RunHistory) -> Iterator[Finding]:
    for name, weight in history.model.state_dict().items():
        if weight.is_floating_point() and not weight.isfinite().all():
            bad = int((~weight.isfinite()).sum())
            yield Finding(
                f"The weights {name} are not finite.",
                f"{bad:,} of {weight.numel():,} are infinite or NaN",
                "use an earlier checkpoint (--checkpoint), and train with a lower train.learning_rate",
            )


def _heads(history: RunHistory) -> Iterator[Finding]:
    """Find heads whose strength ‖W_V‖ ‖W_O‖ is tiny compared with the others."""
    strengths: dict[str, float] = {}
    for name, module in history.model.named_modules():
        if isinstance(module, AttentionHeads) and isinstance(
            output := getattr(module, "output", None), nn.Linear
        ):
            for number, strength in enumerate(_strengths(module, output)):
                strengths[f"head {number + 1} of {name}"] = strength
    if not strengths:
        return
    typical = statistics.median(strengths.values())
    dead = [name for name, strength in strengths.items() if strength < _DEAD * typical]
    if dead:
        shown = ", ".join(dead[:5]) + (f" and {len(dead) - 5} more" if len(dead) > 5 else "")
        yield Finding(
            f"{len(dead)} of {len(strengths)} attention heads are dead: their output is close to zero.",
            f"{shown}: below {_DEAD:.0%} of the median of ‖W_V‖ ‖W_O‖",
            "use fewer heads (model.heads) or layers; dead heads only cost time",
        )


def _strengths(module: AttentionHeads, output: nn.Linear) -> list[float]:
    """Return ‖W_V‖ ‖W_O‖ of every head; W_V is the last rows of the joint projection."""
    projection = next(
        (getattr(module, name) for name in ("query_key_value", "key_value") if hasattr(module, name)), None
    )
    if projection is None:
        return []
    size = module.heads * module.v_width
    values: Tensor = projection.weight[-size:].view(module.heads, -1)
    outputs: Tensor = output.weight.view(output.out_features, module.heads, -1).transpose(0, 1).flatten(1)
    norms: list[float] = (values.norm(dim=1) * outputs.norm(dim=1)).tolist()
    return norms
