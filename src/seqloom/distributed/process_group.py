"""Group of processes that train or decode together, and its collective operations."""

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
class ProcessGroup:
    """This process and its group; by default a single process, for which all collectives are no-ops."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints messages."""
        return self.rank == 0

    def shard(self, rows: int, make: Callable[[slice], Batch]) -> Batch:
        """Return every size-th row of a batch, from `make(rows)`.

        If there are too few rows, the last processes get a row of padding, which adds nothing to the loss.
        """
        if self.rank < rows:
            return make(slice(self.rank, None, self.size))
        idle = make(slice(1))
        assert idle.target_out is not None
        empty = replace(idle, target_out=torch.full_like(idle.target_out, PAD), target_tokens=0)
        if (
            idle.target_lengths is not None and idle.target_out.is_floating_point()
        ):  # vectors have no padding value
            return replace(empty, target_lengths=torch.zeros_like(idle.target_lengths))
        return empty

    def all_reduce_sum(self, values: Tensor) -> Tensor:
        """Return the sum over all processes."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def all_reduce_max(self, *values: float) -> list[float]:
        """Return the maximum of each value over all processes; runs on the CPU, so no device has to wait."""
        if self.size == 1:
            return list(values)
        maxima = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(maxima, dist.ReduceOp.MAX)
        return maxima.tolist()

    def broadcast(self, value: T) -> T:
        """Return the value of the main process."""
        if self.size == 1:
            return value
        values: list[Any] = [value]
        dist.broadcast_object_list(values)
        return values[0]  # type: ignore[no-any-return]

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes by rank in the main process, and an empty list in the others."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.gather_object(value, values if self.is_main else None)
        return values if self.is_main else []

    def all_gather(self, value: Tensor) -> list[Tensor]:
        """Return the CPU tensors of all processes by rank."""
        if self.size == 1:
            return [value]
        values = [torch.empty_like(value) for _ in range(self.size)]
        dist.all_gather(values, value)
        return values

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def init_process_group(device: str = "cpu") -> Iterator[ProcessGroup]:
    """Yield the group of the processes that torchrun started, or that of a single process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ProcessGroup()
        return
    if device != "cpu" and torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    store, rank, size = next(rendezvous("env://"))
    attempt_store = dist.PrefixStore(_attempt(), store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=attempt_store, rank=rank, world_size=size)
    try:
        yield ProcessGroup(rank, size)
    finally:
        dist.destroy_process_group()


def _attempt() -> str:
    """Return a prefix for the keys of this attempt in the store where the processes find each other.

    torchrun keeps the store when it restarts the processes, so a fast one could read the address of a dead
    process and wait for it. The restart count distinguishes attempts on one machine; with several machines
    each has its own count, so the count cannot be used.
    """
    single_machine = os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
    return f"attempt-{_restarts()}" if single_machine else "all-attempts"


def was_restarted() -> bool:
    """Return whether torchrun has restarted the processes after one of them died."""
    return _restarts() > 0


def _restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
