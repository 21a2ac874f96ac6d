"""Data parallelism: each process computes the gradient of its rows of a batch, and the gradients are summed.

The loss is a sum over tokens and is divided by their count once, at the update. So the sum of the gradients is
the gradient of the full batch, however unevenly its rows are distributed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from seqloom.distributed.process_group import ProcessGroup

OptimizerState = dict[str, dict[str, Tensor]]  # parameter name -> {"step", "exp_avg", "exp_avg_sq"}


class DataParallel:
    """Data parallelism with all weights in every process (DDP); FSDP is the other kind.

    A loss module returns the loss of a batch and has a submodule `model`, which is trained.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group

    def wrap(self, loss_module: nn.Module) -> nn.Module:
        """Return a module to call with this process's rows; its backward pass sums the gradients."""
        if self.group.size == 1:
            return loss_module
        wrapped = DistributedDataParallel(loss_module, find_unused_parameters=True)
        wrapped.register_comm_hook(None, lambda _, bucket: _all_reduce_sum(bucket))
        return wrapped

    def no_sync(self, wrapped: nn.Module) -> AbstractContextManager[None]:
        """Return a context in which gradients accumulate locally; the next backward pass outside sums them."""
        return wrapped.no_sync() if isinstance(wrapped, DistributedDataParallel) else nullcontext()

    def model(self, wrapped: nn.Module) -> nn.Module:
        """Return the model of a wrapped loss module, whose parameters are trained."""
        loss_module = wrapped.module if isinstance(wrapped, DistributedDataParallel) else wrapped
        return loss_module.get_submodule("model")

    def load_weights(self, model: nn.Module, wrapped: nn.Module) -> None:
        """Load the weights of the main process's full model into a wrapped module; called by all processes."""

    def gather_weights(self, wrapped: nn.Module, model: nn.Module) -> None:
        """Copy the trained weights to the main process's full model; called by all processes."""

    def optimizer_state(self, model: nn.Module, optimizer: Optimizer) -> OptimizerState:
        """Return the full optimizer state in the main process; called by all processes."""
        return {
            name: optimizer.state[weight]
            for name, weight in model.named_parameters()
            if weight in optimizer.state
        }

    def load_optimizer_state(self, model: nn.Module, optimizer: Optimizer, state: OptimizerState) -> None:
        """Load the full optimizer state; called by all processes."""
        weights = dict(model.named_parameters())
        for name, values in state.items():
            weight = weights[name]
            optimizer.state[weight] = {key: value.to(weight.device) for key, value in values.items()}

    def local(self, gradient: Tensor) -> Tensor:
        """Return the part of a gradient that this process holds."""
        return gradient

    def full_norms(self, local_norms: Tensor) -> Tensor:
        """Return the norms (P,) of the full gradients from those of their local parts."""
        return local_norms


def data_parallel(group: ProcessGroup, device: torch.device, *, shard: bool) -> DataParallel:
    """Return FSDP if the weights are to be sharded over several processes, else DDP."""
    if group.size == 1 or not shard:
        return DataParallel(group)
    from seqloom.distributed.fsdp import FSDP  # its imports take a second

    return FSDP(group, device)


def _all_reduce_sum(bucket: Any) -> torch.futures.Future[Tensor]:
    """Sum a bucket of gradients; the default hook of DDP would average them."""
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    future: torch.futures.Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return future
