"""How a model that learns lies in its processes: here whole in each of them; slices.py cuts it up.

The loss is a sum over tokens and is divided by their count once, at the update, so the sum of the shares'
gradients is the gradient of the whole batch, however uneven the shares are.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from seqloom.models.base import SequenceModel
from seqloom.team import Team
from seqloom.training.config import TrainConfig
from seqloom.training.loss import Loss, batch_loss
from seqloom.types import Batch


class Learner(nn.Module):
    """A model and its loss as one module: what is called goes through the hooks of data parallelism."""

    def __init__(self, model: SequenceModel, smoothing: float, precision: str) -> None:
        super().__init__()
        self.model, self.smoothing, self.precision = model, smoothing, precision

    def forward(self, batch: Batch) -> Loss:
        """The summed loss of a batch under teacher forcing."""
        return batch_loss(self.model, batch, self.smoothing, self.precision)


class Layout:
    """All weights are in every process; a backward pass adds up the gradients of all."""

    def __init__(self, team: Team) -> None:
        self.team = team

    def spread(self, learner: Learner) -> nn.Module:
        """What is called with a share of a batch; gradients are added up on the way back through the layers."""
        if self.team.size == 1:
            return learner
        shared = DistributedDataParallel(learner, find_unused_parameters=True)
        shared.register_comm_hook(None, lambda _, bucket: _sum(bucket))
        return shared

    def alone(self, learner: nn.Module) -> AbstractContextManager[None]:
        """Within it gradients stay with this process, to be added up by a later backward pass."""
        shared = isinstance(learner, DistributedDataParallel)
        return learner.no_sync() if shared else nullcontext()  # type: ignore[operator]

    def model(self, learner: nn.Module) -> nn.Module:
        """The model in it, whose parameters learn."""
        inner = learner.module if isinstance(learner, DistributedDataParallel) else learner
        return cast(Learner, inner).model

    def deal(self, model: nn.Module, learner: nn.Module) -> None:
        """Makes what learns have the weights of the model, which may have been read from a checkpoint."""

    def collect(self, learner: nn.Module, model: nn.Module) -> None:
        """Makes the leader's model have the weights that were learned; all have to call it."""

    def own(self, tensor: Tensor) -> Tensor:
        """The part of a weight or its gradient that this process looks after."""
        return tensor

    def join(self, weight: Tensor, part: Tensor) -> Tensor:
        """The tensor of which all hold a part, as they do of the weight; all have to call it."""
        return part

    def cut(self, weight: Tensor, tensor: Tensor) -> Tensor:
        """This process's part of a tensor, on the device of the weight."""
        return tensor.to(weight.device)

    def norms(self, parts: Tensor) -> Tensor:
        """Norms of gradients from the norms of what this process has of them."""
        return parts


def layout_of(team: Team, config: TrainConfig, device: torch.device) -> Layout:
    """The layout that is asked for; a single process holds all in any case."""
    if team.size == 1 or not config.shard:
        return Layout(team)
    from seqloom.training.slices import Slices  # takes a second to import

    return Slices(team, device)


def _sum(bucket: Any) -> torch.futures.Future[Tensor]:
    """The sum of a bucket of gradients; torch's own hook would give the mean of parts of different size."""
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    future: torch.futures.Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return future
