"""Several processes that train one model: each takes its rows of every batch, and the gradients are added up.

The loss is a sum over tokens and is divided by their count once, at the update, so the sum of the shares'
gradients is the gradient of the whole batch, however uneven the shares are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from seqloom.training.loss import Loss, batch_loss
from seqloom.types import PAD, Batch

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """This process among all that train the same model; alone, nothing has to be shared or agreed on."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this one writes files and talks to the person."""
        return self.rank == 0

    def share(self, batch: Batch) -> Batch:
        """Every size-th row of a batch; if none is left for this process, a row that teaches nothing."""
        if self.size == 1:
            return batch
        rows = torch.arange(self.rank, len(batch.source), self.size)
        idle = len(rows) == 0
        rows = torch.zeros(1, dtype=torch.long) if idle else rows
        parts = {
            field.name: value[rows]
            for field in fields(batch)
            if isinstance(value := getattr(batch, field.name), Tensor)
        }
        target_out = parts["target_out"]
        if idle:
            parts["target_out"] = torch.full_like(target_out, PAD)
        asked = int((parts["target_out"] != PAD).sum())
        return replace(batch, **parts, target_tokens=asked)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def most(self, *values: float) -> list[float]:
        """Of each value the largest that any process has; they meet on the host, so no device has to wait."""
        if self.size == 1:
            return list(values)
        found = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return found.tolist()

    def told(self, value: T) -> T:
        """What the leader has."""
        if self.size == 1:
            return value
        box: list[Any] = [value]
        dist.broadcast_object_list(box)
        return box[0]  # type: ignore[no-any-return]

    def all(self, value: Tensor) -> list[Tensor]:
        """The values of all processes, on the host, by rank."""
        if self.size == 1:
            return [value]
        found = [torch.empty_like(value) for _ in range(self.size)]
        dist.all_gather(found, value)
        return found

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            dist.barrier()

    def learner(self, module: nn.Module) -> nn.Module:
        """The module whose backward pass adds up the gradients of all, while it goes on with earlier layers."""
        if self.size == 1:
            return module
        shared = DistributedDataParallel(module, find_unused_parameters=True)
        shared.register_comm_hook(None, lambda _, bucket: _add_up(bucket))
        return shared

    def alone(self, learner: nn.Module) -> AbstractContextManager[None]:
        """Within it gradients stay with this process, to be added up by a later backward pass."""
        shared = isinstance(learner, DistributedDataParallel)
        return learner.no_sync() if shared else nullcontext()  # type: ignore[operator]


def _add_up(bucket: Any) -> torch.futures.Future[Tensor]:
    """The sum of a bucket of gradients; torch's own hook would give the mean of parts of different size."""
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    future: torch.futures.Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return future


@contextmanager
def joined(device: str = "cpu") -> Iterator[Team]:
    """The team that torchrun has called together, or this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Team()
        return
    if device != "cpu" and torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield Team(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()


def was_restarted() -> bool:
    """Whether torchrun has started this team anew because one of it was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


class Learner(nn.Module):
    """A model and its loss as one module: what is called goes through the hooks of data parallelism."""

    def __init__(self, model: nn.Module, smoothing: float, precision: str) -> None:
        super().__init__()
        self.model, self.smoothing, self.precision = model, smoothing, precision

    def forward(self, batch: Batch) -> Loss:
        """The summed loss of a batch under teacher forcing."""
        return batch_loss(self.model, batch, self.smoothing, self.precision)
