"""Training metrics between two reports: means, clipping, skipped updates and loss spikes."""

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

# A spike is reported if it is large both relative to the updates before it and in absolute terms.
_HISTORY, _MIN_HISTORY = 200, 20  # updates to compare with: at most, and at least
_LOSS_RATIO, _LOSS_MARGIN = 2.0, 1.0  # times the median loss, and nats per token above it
_NORM_RATIO, _MIN_NORM = 10.0, 1.0  # times the median gradient norm, and the smallest norm of a spike
_MEASURED = ("norm", "excess", "skipped")  # values kept of every update


class Spike(NamedTuple):
    """An update whose loss or gradient was much larger than usual."""

    step: int
    loss: float
    norm: float
    usual_loss: float
    usual_norm: float

    def __str__(self) -> str:
        return (
            f"spike at step {self.step:,}: loss {self.loss:.3g} (median {self.usual_loss:.3g}), "
            f"gradient norm {self.norm:.3g} (median {self.usual_norm:.3g})"
        )


class TrainingMetrics:
    """Sums since the last report, kept on the device until they are reported.

    Checkpoints include them, so a resumed run writes the same reports as a run that was never interrupted.
    """

    def __init__(self) -> None:
        self.skipped_in_a_row = 0
        self._history = deque[tuple[float, float]](maxlen=_HISTORY)  # loss and norm of earlier updates
        self._clear()

    def reset(self, state: TrainState) -> None:
        """Start again after a report."""
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
        """Return the sums since the last report as named tensors; every process must call it."""
        return {
            "window.before": torch.tensor(self._history, dtype=torch.float64).reshape(-1, 2),
            "window.sums": torch.tensor([self.skipped_in_a_row, self.real, self.padded, self.split]),
            "window.counts": torch.tensor(self.counts, dtype=torch.int64),
            "window.nll": group.all_reduce_sum(_stacked(self.nll)),
            **{f"window.{name}": _stacked([getattr(one, name) for one in self.updates]) for name in _MEASURED},
        }

    def restore(
        self, tensors: dict[str, Tensor], state: TrainState, group: ProcessGroup, device: torch.device
    ) -> None:
        """Restore what `state` returned; checkpoints of older versions do not have it."""
        if "window.sums" not in tensors:
            self.reset(state)
            return
        self._history.extend((loss, norm) for loss, norm in tensors["window.before"].tolist())
        self.skipped_in_a_row, self.real, self.padded, self.split = tensors["window.sums"].tolist()
        self.counts = tensors["window.counts"].tolist()
        nll = tensors["window.nll"].to(device)
        self.nll = list(nll if group.is_main else torch.zeros_like(nll))  # the saved sum is over all processes
        measured = zip(*(tensors[f"window.{name}"].to(device) for name in _MEASURED), strict=True)
        self.updates = [
            Update(norm, torch.empty(0), excess, skipped) for norm, excess, skipped in measured
        ]  # norms by parameter are reported for the last update only, so they need not be restored

    @property
    def count(self) -> int:
        """Target tokens since the last report."""
        return sum(self.counts)

    def update(self, batch: Batch) -> None:
        assert batch.target_out is not None and batch.target_lengths is not None
        rows, width = batch.target_out.shape[:2]
        self.padded += rows * width
        self.real += int(batch.target_lengths.sum())

    def add(self, nll: Tensor, count: int, update: Update, rate: float) -> None:
        self.nll.append(nll)
        self.counts.append(count)
        self.updates.append(update)
        self.rate = rate

    def progress_fields(self, loss: Tensor) -> dict[str, Any]:
        """Return the values shown by the progress bar; reading the loss of an accelerator would stall it."""
        return {"lr": self.rate} if loss.is_cuda else {"loss": loss.item(), "lr": self.rate}

    def compute(self, state: TrainState, group: ProcessGroup) -> dict[str, Any]:
        """Return the measurements; sets `skipped`, `skipped_in_a_row` and `spikes`."""
        skips = [bool(skip) for skip in torch.stack([update.skipped for update in self.updates]).tolist()]
        nll = group.all_reduce_sum(torch.stack(self.nll)).tolist()
        norms = torch.stack([update.norm for update in self.updates]).tolist()
        self.skipped = sum(skips)
        for skip in skips:
            self.skipped_in_a_row = self.skipped_in_a_row + 1 if skip else 0
        first = state.step - len(skips) + 1
        for number, skip in enumerate(skips):
            if not skip:
                self._check_spike(first + number, nll[number] / self.counts[number], norms[number])
        applied = [number for number, skip in enumerate(skips) if not skip]
        tokens = sum(self.counts[number] for number in applied)
        seconds = max(state.seconds - state.reported, 1e-9)
        return {
            "loss": sum(nll[number] for number in applied) / tokens if tokens else math.nan,
            "learning_rate": self.rate,
            "gradient_norm": median(norms[number] for number in applied) if applied else math.nan,
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
        """Return messages about skipped updates and spikes."""
        lines = []
        if self.skipped:
            lines.append(
                f"skipped {self.skipped} of the {len(self.updates)} updates up to step {step:,}: "
                "the gradient was not finite (NaN or infinity)"
            )
        if self.spikes:
            worst = max(self.spikes, key=lambda spike: spike.norm)
            more = f", and {len(self.spikes) - 1} more" if len(self.spikes) > 1 else ""
            lines.append(f"{worst}{more}")
        return lines

    def _check_spike(self, step: int, loss: float, norm: float) -> None:
        """Record an update, and whether it is a spike compared with the updates before it."""
        if len(self._history) >= _MIN_HISTORY:
            usual_loss, usual_norm = (median(values) for values in zip(*self._history, strict=True))
            high_loss = loss > max(_LOSS_RATIO * usual_loss, usual_loss + _LOSS_MARGIN)
            high_norm = norm > max(_NORM_RATIO * usual_norm, _MIN_NORM)
            if high_loss or high_norm:
                self.spikes.append(Spike(step, loss, norm, usual_loss, usual_norm))
        self._history.append((loss, norm))

    def _clipping(self) -> dict[str, float]:
        """Return the share of clipped updates and the mean factor that they were scaled by."""
        excess = torch.stack([update.excess for update in self.updates]).cpu()
        clipped = excess[(excess > 1) & excess.isfinite()]  # infinite ones are skipped, not clipped
        return {
            "clipped": len(clipped) / len(excess),
            "clip_factor": clipped.reciprocal().mean().item() if len(clipped) else 1.0,
        }


def _stacked(numbers: list[Tensor]) -> Tensor:
    return torch.stack(numbers) if numbers else torch.zeros(0)
