"""What is wrong with a run, in plain words and with the evidence: from its log, its data and its weights."""

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

# From where on something is worth a word. Each is a rule of thumb; the evidence stands beside the finding.
_RISE = 1.5  # times the lowest training loss
_CLIPPED = 0.5  # of the updates after the warm-up
_STUCK = 0.95  # of the first training loss
_OVERFIT = 1.05  # times the lowest validation loss
_IMPROVING = 0.99  # times the validation loss of a quarter of the run before
_VANISHED = 1e-3  # of the largest gradient norm among the layers of a stack
_PADDING = 0.25  # of a batch
_DROPPED = 0.05  # of the lines
_DEAD = 0.02  # of the median head of the model


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or that could be better."""

    problem: str
    evidence: str
    advice: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


class _Lines(Settings):
    """What is looked at of data-report.json."""

    model_config = ConfigDict(extra="ignore")

    total: int = 0
    dropped: int = 0
    counts: dict[str, int] = Field(default_factory=dict)


@dataclass(frozen=True)
class RunHistory:
    """The parts of a run that are examined."""

    config: TrainConfig
    metrics: Sequence[Mapping[str, Any]]  # the lines of metrics.jsonl
    data: Mapping[str, Any]  # data-report.json
    model: nn.Module  # with the weights that are served

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
        """The validations whose loss, or what chooses the best checkpoint, was not finite."""
        names = {"loss", self.config.best_by}
        lines = [line for line in self.metrics if line["kind"] == "valid"]
        return [line for line in lines if any(line[name] is None for name in names & line.keys())]


def diagnose(run: RunHistory | Run | str | Path) -> list[Finding]:
    """Return everything that is wrong with a run, or with the run in a folder."""
    if isinstance(run, str | Path):
        run = Run.open(run)
    patient = RunHistory.of(run) if isinstance(run, Run) else run
    checks = (_learning_rate, _stuck, _validations, _fit, _gradients, _padding, _data, _numbers, _heads)
    return [finding for check in checks for finding in check(patient)]


def _losses(lines: Sequence[Mapping[str, Any]]) -> list[float]:
    """The losses; one that was not finite is written as null."""
    return [math.inf if line.get("loss") is None else float(line["loss"]) for line in lines]


def _learning_rate(patient: RunHistory) -> Iterator[Finding]:
    """Too high a rate: the loss rises again, updates are not finite, or nearly all are clipped."""
    lines, config = patient.training, patient.config
    losses = _losses(lines)
    lower = f"train with a lower train.learning_rate (it was {config.learning_rate:g}) or longer train.warmup"
    if losses and losses[-1] > _RISE * min(losses):
        lowest = lines[losses.index(min(losses))]
        last = f"{losses[-1]:.3g}" if math.isfinite(losses[-1]) else "not finite"
        yield Finding(
            "The training loss rose again: the run diverged.",
            f"{min(losses):.3g} at step {lowest['step']:,}, {last} at step {lines[-1]['step']:,}",
            lower,
        )
    if skipped := sum(int(line.get("skipped") or 0) for line in lines):
        yield Finding(
            "Some updates were left out because their gradient was not finite.",
            f"{skipped:,} of {lines[-1]['step']:,} updates",
            lower,
        )
    if spikes := [line for line in lines if line.get("spikes")]:
        yield Finding(
            "The loss or the gradient jumped at single updates.",
            f"{sum(int(line['spikes']) for line in spikes):,} updates, first before step {spikes[0]['step']:,}",
            f"log.txt tells each; look for bad pairs by `seqloom score`, or {lower}",
        )
    warm = [line.get("clipped") for line in lines if line["step"] > config.warmup]
    clipped = [share for share in warm if share is not None]
    if clipped and statistics.mean(clipped) > _CLIPPED:
        yield Finding(
            "Most gradients were clipped, so the length of a step is not what the schedule says.",
            f"{statistics.mean(clipped):.0%} of the updates after the warm-up, at train.clip={config.clip:g}",
            f"{lower}, or raise train.clip",
        )


def _stuck(patient: RunHistory) -> Iterator[Finding]:
    losses = _losses(patient.training)
    if len(losses) >= 5 and _STUCK * losses[0] < losses[-1] < _RISE * min(losses):
        yield Finding(
            "The model has hardly learned anything.",
            f"the training loss went from {losses[0]:.3g} to {losses[-1]:.3g}",
            "try a higher train.learning_rate, fewer layers, or see `seqloom data check` for wrong pairs",
        )


def _validations(patient: RunHistory) -> Iterator[Finding]:
    if failed := patient.failed_validation:
        count = sum(line["kind"] == "valid" for line in patient.metrics)
        yield Finding(
            "Validations were not finite (NaN or infinity): the model diverged.",
            f"{len(failed):,} of {count:,} validations, first at step {failed[0]['step']:,}",
            f"train again with a lower train.learning_rate (it was {patient.config.learning_rate:g}), longer "
            "train.warmup, or train.clip=1",
        )


def _fit(patient: RunHistory) -> Iterator[Finding]:
    """Over-fitting, or a run that ended too soon."""
    checks = patient.validation
    losses = _losses(checks)
    if len(losses) < 3:
        return
    best = losses.index(min(losses))
    if losses[-1] > _OVERFIT * losses[best]:
        yield Finding(
            "The model over-fits: it still learns the training data, and the validation loss rises.",
            f"it was {losses[best]:.3g} at step {checks[best]['step']:,} and is {losses[-1]:.3g} at the end",
            "the best checkpoint is served all the same; for a better one raise model.dropout, take a smaller "
            "model or more data, or stop early by train.patience",
        )
    before = losses[max(0, len(losses) * 3 // 4 - 1)]
    if best == len(losses) - 1 and losses[-1] < _IMPROVING * before:
        yield Finding(
            "The model was still getting better when the run ended.",
            f"the validation loss fell from {before:.3g} to {losses[-1]:.3g} in the last quarter",
            "train longer (train.max_steps, train.max_minutes or train.max_epochs)",
        )


def _gradients(patient: RunHistory) -> Iterator[Finding]:
    """Layers of a stack, such as encoder.0 and encoder.1, whose gradient is nothing beside the others'."""
    lines = [line["gradient_norms"] for line in patient.training if line.get("gradient_norms")]
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
                    "seqloom inspect gradients shows where it is lost",
                )


def _padding(patient: RunHistory) -> Iterator[Finding]:
    shares = [line["padding"] for line in patient.training if line.get("padding") is not None]
    if shares and statistics.mean(shares) > _PADDING:
        yield Finding(
            "Much of every batch is padding, which costs time and teaches nothing.",
            f"{statistics.mean(shares):.0%} of the positions",
            "raise train.batch_tokens: a batch then holds more lines of like length; or lower data.max_length",
        )


def _data(patient: RunHistory) -> Iterator[Finding]:
    found = _Lines.checked(patient.data, "report", where="data-report.json")
    total, dropped = found.total, found.dropped
    if total and dropped > _DROPPED * total:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in list(found.counts.items())[:3])
        yield Finding(
            "Many lines of the data were dropped.",
            f"{dropped:,} of {total:,}: {reasons}",
            "data-report.json lists them; see data.max_length and the columns that were read",
        )


def _numbers(patient: RunHistory) -> Iterator[Finding]:
    for name, weight in patient.model.state_dict().items():
        if weight.is_floating_point() and not weight.isfinite().all():
            broken = int((~weight.isfinite()).sum())
            yield Finding(
                f"The weights {name} are not numbers.",
                f"{broken:,} of {weight.numel():,} are infinite or undefined",
                "go back to an earlier checkpoint (--checkpoint), and train with a lower train.learning_rate",
            )


def _heads(patient: RunHistory) -> Iterator[Finding]:
    """Heads that say next to nothing: ‖W_V of the head‖ · ‖W_O of the head‖ beside that of the others."""
    strengths: dict[str, float] = {}
    for name, module in patient.model.named_modules():
        if isinstance(module, AttentionHeads) and isinstance(
            output := getattr(module, "output", None), nn.Linear
        ):
            for number, strength in enumerate(_strengths(module, output)):
                strengths[f"head {number + 1} of {name}"] = strength
    if not strengths:
        return
    middle = statistics.median(strengths.values())
    dead = [name for name, strength in strengths.items() if strength < _DEAD * middle]
    if dead:
        shown = ", ".join(dead[:5]) + (f" and {len(dead) - 5} others" if len(dead) > 5 else "")
        yield Finding(
            f"{len(dead)} of {len(strengths)} attention heads are dead: what they say is next to nothing.",
            f"{shown}: below {_DEAD:.0%} of the median of ‖W_V‖ ‖W_O‖",
            "use fewer heads (model.heads) or layers; a dead head costs time and gives nothing",
        )


def _strengths(module: AttentionHeads, output: nn.Linear) -> list[float]:
    """Of every head; the values are the last rows of the projection that makes them."""
    projection = next(
        (getattr(module, name) for name in ("query_key_value", "key_value") if hasattr(module, name)), None
    )
    if projection is None:
        return []
    size = module.heads * module.v_width
    values: Tensor = projection.weight[-size:].view(module.heads, -1)
    said: Tensor = output.weight.view(output.out_features, module.heads, -1).transpose(0, 1).flatten(1)
    norms: list[float] = (values.norm(dim=1) * said.norm(dim=1)).tolist()
    return norms
