"""What a report tells of the updates since the last one: means, and what was out of the ordinary."""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.distributed.process_group import ProcessGroup
from seqloom.training.checkpoint import TrainState
from seqloom.training.optimizer import Update
from seqloom.training.run_log import peak_memory_mb
from seqloom.types import Batch

# A spike is worth a word when it stands out of the updates before it, and is no trifle by itself.
_MEMORY, _ENOUGH = 200, 20  # updates that are looked back at, and that it takes to know what is usual
_LOSS, _NATS = 2.0, 1.0  # times the median loss, and so much more per token
_MEASURED = ("norm", "excess", "skipped")  # of every update
_NORM, _LEAST = 10.0, 1.0  # times the median norm of the gradient, and at least so long


class Spike(NamedTuple):
    """An update whose loss or gradient was much larger than usual."""

    step: int
    loss: float
    norm: float
    usual_loss: float
    usual_norm: float

    def __str__(self) -> str:
        return (
            f"step {self.step:,} stands out: its loss is {self.loss:.3g} (usually {self.usual_loss:.3g}), "
            f"its gradient {self.norm:.3g} long (usually {self.usual_norm:.3g})"
        )


class TrainingMetrics:
    """Sums since the last report, kept on the device until the report asks for them.

    Checkpoints hold them, too: the reports of a resumed run are those of the run that was never stopped.
    """

    def __init__(self) -> None:
        self.skipped_in_a_row = 0
        self._before = deque[tuple[float, float]](maxlen=_MEMORY)  # loss and norm of earlier updates
        self._clear()

    def reset(self, state: TrainState) -> None:
        """Begin anew after a report."""
        self._clear()
        state.reported = state.seconds

    def _clear(self) -> None:
        self.nll: list[Tensor] = []
        self.counts: list[int] = []
        self.updates: list[Update] = []
        self.spikes: list[Spike] = []
        self.real, self.padded = 0, 0
        self.rate = 0.0
        self.skipped, self.split = 0, 0

    def state(self, group: ProcessGroup) -> dict[str, Tensor]:
        """Return what is known since the last report as named tensors; all processes have to call it."""
        return {
            "window.before": torch.tensor(self._before, dtype=torch.float64).reshape(-1, 2),
            "window.sums": torch.tensor([self.skipped_in_a_row, self.real, self.padded, self.split]),
            "window.counts": torch.tensor(self.counts, dtype=torch.int64),
            "window.nll": group.all_reduce_sum(_stacked(self.nll)),
            **{f"window.{name}": _stacked([getattr(one, name) for one in self.updates]) for name in _MEASURED},
        }

    def restore(
        self, tensors: dict[str, Tensor], state: TrainState, group: ProcessGroup, device: torch.device
    ) -> None:
        """Take back what `state` returned; a checkpoint of an older version has nothing to take."""
        if "window.sums" not in tensors:
            self.reset(state)
            return
        self._before.extend((loss, norm) for loss, norm in tensors["window.before"].tolist())
        self.skipped_in_a_row, self.real, self.padded, self.split = tensors["window.sums"].tolist()
        self.counts = tensors["window.counts"].tolist()
        nll = tensors["window.nll"].to(device)
        self.nll = list(nll if group.is_main else torch.zeros_like(nll))  # it is that of all processes
        measured = zip(*(tensors[f"window.{name}"].to(device) for name in _MEASURED), strict=True)
        self.updates = [
            Update(norm, torch.empty(0), excess, skipped) for norm, excess, skipped in measured
        ]  # of their parameters only those of the last update are reported

    @property
    def count(self) -> int:
        """Target tokens since the last report."""
        return sum(self.counts)

    def update(self, batch: Batch) -> None:
        assert batch.target_out is not None and batch.target_lengths is not None
        self.padded += batch.target_out.numel()
        self.real += int(batch.target_lengths.sum())

    def add(self, nll: Tensor, count: int, update: Update, rate: float) -> None:
        self.nll.append(nll)
        self.counts.append(count)
        self.updates.append(update)
        self.rate = rate

    def progress_fields(self, loss: Tensor) -> dict[str, Any]:
        """What moves beside the progress bar; on an accelerator the loss waits for the report."""
        return {"lr": self.rate} if loss.is_cuda else {"loss": loss.item(), "lr": self.rate}

    def compute(self, state: TrainState, group: ProcessGroup) -> dict[str, Any]:
        """The measurements; after this `skipped`, `skipped_in_a_row` and `spikes` are known."""
        skips = [bool(skip) for skip in torch.stack([update.skipped for update in self.updates]).tolist()]
        nll = group.all_reduce_sum(torch.stack(self.nll)).tolist()
        norms = torch.stack([update.norm for update in self.updates]).tolist()
        self.skipped = sum(skips)
        for skip in skips:
            self.skipped_in_a_row = self.skipped_in_a_row + 1 if skip else 0
        first = state.step - len(skips) + 1
        for number, skip in enumerate(skips):
            if not skip:
                self._look(first + number, nll[number] / self.counts[number], norms[number])
        learned = [number for number, skip in enumerate(skips) if not skip]
        tokens = sum(self.counts[number] for number in learned)
        seconds = max(state.seconds - state.reported, 1e-9)
        return {
            "loss": sum(nll[number] for number in learned) / tokens if tokens else math.nan,
            "learning_rate": self.rate,
            "gradient_norm": median(norms[number] for number in learned) if learned else math.nan,
            **self._clipping(),
            "tokens_per_second": self.count / seconds,
            "padding": 1 - self.real / self.padded,
            "skipped": self.skipped,
            "spikes": len(self.spikes),
            "split": self.split,
            "epoch": state.epoch,
            "memory_mb": round(peak_memory_mb()),
            "seconds": round(state.seconds, 2),
            "target_tokens": state.target_tokens,
        }

    def warnings(self, step: int) -> list[str]:
        """Sentences on what was out of the ordinary, for the person."""
        lines = []
        if self.skipped:
            lines.append(
                f"{self.skipped} of the {len(self.updates)} updates up to step {step:,} left out: "
                "the gradient was not finite (NaN or infinity)"
            )
        if self.spikes:
            worst = max(self.spikes, key=lambda spike: spike.norm)
            others = f", and {len(self.spikes) - 1} more like it" if len(self.spikes) > 1 else ""
            lines.append(f"{worst}{others}")
        return lines

    def _look(self, step: int, loss: float, norm: float) -> None:
        """Remembers an update; one that stands out of those before it is a spike."""
        if len(self._before) >= _ENOUGH:
            usual_loss, usual_norm = (median(values) for values in zip(*self._before, strict=True))
            higher = loss > max(_LOSS * usual_loss, usual_loss + _NATS)
            longer = norm > max(_NORM * usual_norm, _LEAST)
            if higher or longer:
                self.spikes.append(Spike(step, loss, norm, usual_loss, usual_norm))
        self._before.append((loss, norm))

    def _clipping(self) -> dict[str, float]:
        """How often the gradient was too long, and to which part of its length it was cut on average."""
        excess = torch.stack([update.excess for update in self.updates]).cpu()
        cut = excess[(excess > 1) & excess.isfinite()]  # infinitely long: skipped, not cut
        return {
            "clipped": len(cut) / len(excess),
            "clip_factor": cut.reciprocal().mean().item() if len(cut) else 1.0,
        }


def _stacked(numbers: list[Tensor]) -> Tensor:
    return torch.stack(numbers) if numbers else torch.zeros(0)
