"""A model of which every process holds a slice: of its weights, their gradients and their moments (FSDP2)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from seqloom.team import Team
from seqloom.training.layout import Layout, Learner


class Slices(Layout):
    """For a model whose training does not fit into one process.

    A block's weights are put together when it is computed and forgotten behind it; the rest is there from the
    beginning of a pass to its end. Only the leader keeps a whole model, too, to measure and to save.
    """

    def __init__(self, team: Team, device: torch.device) -> None:
        super().__init__(team)
        self.mesh = init_device_mesh(device.type, (team.size,))

    def spread(self, learner: Learner) -> nn.Module:
        sliced = copy.deepcopy(learner)
        blocks = [block for part in sliced.modules() if isinstance(part, nn.ModuleList) for block in part]
        for module in (*blocks, sliced):
            fully_shard(module, mesh=self.mesh)
        for part in sliced.modules():
            if isinstance(part, FSDPModule):  # sums, as everywhere here, not means
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)
        return sliced

    @contextmanager
    def alone(self, learner: nn.Module) -> Iterator[None]:
        sliced = cast(FSDPModule, learner)
        sliced.set_requires_gradient_sync(False)
        yield
        sliced.set_requires_gradient_sync(True)

    def deal(self, model: nn.Module, learner: nn.Module) -> None:
        given = dict(model.named_parameters())
        for name, weight in self.model(learner).named_parameters():
            self.own(weight).copy_(self.cut(weight, given[name].detach()))
        if not self.team.leads:
            model.to("meta")  # gives its memory back

    def collect(self, learner: nn.Module, model: nn.Module) -> None:
        kept = dict(model.named_parameters())
        for name, weight in self.model(learner).named_parameters():
            whole = cast(DTensor, weight.detach()).full_tensor()
            if self.team.leads:
                kept[name].data.copy_(whole)

    def own(self, tensor: Tensor) -> Tensor:
        return cast(DTensor, tensor.detach()).to_local()

    def join(self, weight: Tensor, part: Tensor) -> Tensor:
        if part.dim() == 0:  # a count, which all have
            return part
        like = cast(DTensor, weight)
        shared = DTensor.from_local(
            part, self.mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
        )
        return shared.full_tensor()

    def cut(self, weight: Tensor, tensor: Tensor) -> Tensor:
        if tensor.dim() == 0:
            return tensor
        placements = cast(DTensor, weight).placements
        return distribute_tensor(tensor.to(weight.device), self.mesh, placements, src_data_rank=None).to_local()

    def norms(self, parts: Tensor) -> Tensor:
        return self.team.sum(parts.square()).sqrt()
