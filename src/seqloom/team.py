"""Several processes that work together: who they are, what each takes, and what they tell each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from seqloom.types import PAD, Batch

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """This process among all that do the same work; alone, nothing has to be shared or agreed on."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this one writes files and talks to the person."""
        return self.rank == 0

    def share(self, rows: int, make: Callable[[slice], Batch]) -> Batch:
        """Every size-th row of so many; if none is left for this process, a row that teaches nothing."""
        if self.rank < rows:
            return make(slice(self.rank, None, self.size))
        idle = make(slice(1))
        assert idle.target_out is not None
        return replace(idle, target_out=torch.full_like(idle.target_out, PAD), target_tokens=0)

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

    def gathered(self, value: T) -> list[T]:
        """The values of all processes by rank, for the leader; the others get nothing."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.gather_object(value, found if self.leads else None)
        return found if self.leads else []

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


@contextmanager
def joined(device: str = "cpu") -> Iterator[Team]:
    """The team that torchrun has called together, or this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Team()
        return
    if device != "cpu" and torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    store, rank, size = next(rendezvous("env://"))
    ours = dist.PrefixStore(_attempt(), store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=ours, rank=rank, world_size=size)
    try:
        yield Team(rank, size)
    finally:
        dist.destroy_process_group()


def _attempt() -> str:
    """A name for the keys of this attempt in the store where the processes find each other.

    torchrun keeps the store when it starts a team again: one that is quick could read the address of a process
    that is dead, and wait for it. On one machine the count tells attempts apart; of several each has its own.
    """
    alone = os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
    return f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}" if alone else "all-attempts"


def was_restarted() -> bool:
    """Whether torchrun has started this team anew because one of it was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
