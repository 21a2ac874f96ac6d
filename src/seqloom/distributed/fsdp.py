"""Fully sharded data parallelism (FSDP2): weights, gradients and moments are sharded over the processes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    OptimizerStateType,
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from seqloom.distributed.ddp import DataParallel, OptimizerState
from seqloom.distributed.process_group import ProcessGroup
from seqloom.errors import SeqloomError

_TO_MAIN = StateDictOptions(full_state_dict=True, cpu_offload=True)  # empty in the other processes
_FROM_MAIN = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, strict=False)


def refuse_shared_weights(blocks: Iterable[nn.Module]) -> None:
    """Raise an error if two blocks, which are sharded separately, have a weight in common."""
    owners = Counter(weight for block in blocks for weight in block.parameters())
    if max(owners.values(), default=1) > 1:
        raise SeqloomError(
            "train.shard does not support weights that several layers share.",
            "use model.encoder.sharing=layer, or train.shard=false",
        )


class FSDP(DataParallel):
    """Data parallelism for models whose training does not fit into the memory of one process.

    The weights of a block are gathered when it is computed and freed afterwards; the other weights are gathered
    for an entire pass. The main process also keeps the full model, to validate and save it.
    """

    def __init__(self, group: ProcessGroup, device: torch.device) -> None:
        super().__init__(group)
        self.mesh = init_device_mesh(device.type, (group.size,))

    def wrap(self, loss_module: nn.Module) -> nn.Module:
        sharded = copy.deepcopy(loss_module)
        blocks = [block for part in sharded.modules() if isinstance(part, nn.ModuleList) for block in part]
        refuse_shared_weights(blocks)
        for module in (*blocks, sharded):
            fully_shard(module, mesh=self.mesh)
        for part in sharded.modules():
            if isinstance(part, FSDPModule):  # sum the gradients instead of averaging them
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)
        return sharded

    @contextmanager
    def no_sync(self, wrapped: nn.Module) -> Iterator[None]:
        sharded = cast(FSDPModule, wrapped)
        sharded.set_requires_gradient_sync(False)
        yield
        sharded.set_requires_gradient_sync(True)

    def load_weights(self, model: nn.Module, wrapped: nn.Module) -> None:
        # Not state_dict(): it lists a shared module under each of its names, and torch broadcasts the first.
        tensors: dict[str, Any] = dict([*model.named_parameters(), *model.named_buffers()])
        set_model_state_dict(self.model(wrapped), tensors, options=_FROM_MAIN)
        if not self.group.is_main:
            model.to("meta")  # frees its memory

    def gather_weights(self, wrapped: nn.Module, model: nn.Module) -> None:
        state = get_model_state_dict(self.model(wrapped), options=_TO_MAIN)
        if self.group.is_main:
            model.load_state_dict(state)

    def optimizer_state(self, model: nn.Module, optimizer: Optimizer) -> OptimizerState:
        state = get_optimizer_state_dict(model, optimizer, options=_TO_MAIN)
        return cast(OptimizerState, state.get("state", {}))

    def load_optimizer_state(self, model: nn.Module, optimizer: Optimizer, state: OptimizerState) -> None:
        groups = get_optimizer_state_dict(model, optimizer)["param_groups"]
        full = cast(OptimizerStateType, {"state": state, "param_groups": groups})
        set_optimizer_state_dict(model, optimizer, full, options=_FROM_MAIN)
        for name, weight in model.named_parameters():
            if name not in state:  # unused so far, but torch initialises the state of all parameters
                optimizer.state.pop(weight, None)

    def local(self, gradient: Tensor) -> Tensor:
        return cast(DTensor, gradient).to_local()

    def full_norms(self, local_norms: Tensor) -> Tensor:
        # By hand: torch would all-reduce the norm of each parameter separately.
        return self.group.all_reduce_sum(local_norms.square()).sqrt()
