"""AdamW and SGD with gradient normalisation, clipping and a non-finite check that never wait for the device."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from seqloom.distributed.ddp import DataParallel, OptimizerState
from seqloom.distributed.process_group import ProcessGroup
from seqloom.training.config import OptimizerName, TrainConfig

_PREFIXES: dict[OptimizerName, str] = {"adamw": "adam", "sgd": "sgd"}  # of the tensors in a checkpoint


class Update(NamedTuple):
    """Statistics of an update, still on the device."""

    norm: Tensor  # of the mean gradient, before clipping
    parts: Tensor  # (P,) the same for each parameter: norm² = Σ parts²
    excess: Tensor  # divisor that clips the gradient to the limit; 1.0 if it is within
    skipped: Tensor  # 1.0 if the gradient was not finite and nothing was changed


class Updater:
    """Optimizer steps on summed gradients.

    The gradient of the loss *sum* is divided by the token count here and nowhere else, so accumulation and
    ragged batches give the gradient of one large batch.
    """

    def __init__(self, model: nn.Module, config: TrainConfig, parallel: DataParallel | None = None) -> None:
        self.model, self.parallel = model, parallel or DataParallel(ProcessGroup())
        # named_parameters lists tied weights once, under their first name.
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        decayed = [weight for weight in self.weights.values() if weight.dim() > 1]
        plain = [weight for weight in self.weights.values() if weight.dim() <= 1]
        groups: list[dict[str, Any]] = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]
        self.optimizer = _optimizer(groups, config)
        self.prefix = _PREFIXES[config.optimizer]
        self.has_state = config.optimizer == "adamw" or config.momentum > 0
        self.clip = config.clip

    def update(self, count: int, rate: float) -> Update:
        """Update the weights by the mean gradient, clear it, and return its statistics."""
        parts = self.parallel.full_norms(torch.stack(torch._foreach_norm(self._gradients()))) / count
        norm = torch.linalg.vector_norm(parts)
        skipped = (~norm.isfinite()).float()
        excess = (norm / self.clip).clamp_min(1.0) if self.clip else torch.ones_like(norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # The fused kernel divides by grad_scale and leaves everything alone when found_inf is 1.
        self.optimizer.grad_scale = excess * count  # type: ignore[attr-defined]
        self.optimizer.found_inf = skipped  # type: ignore[attr-defined]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return Update(norm, parts, excess, skipped)

    def _gradients(self) -> list[Tensor]:
        """Return the local part of each parameter's gradient; 0 for a parameter that the loss did not use."""
        return [
            torch.zeros((), device=weight.device) if weight.grad is None else self.parallel.local(weight.grad)
            for weight in self.weights.values()
        ]

    def layer_norms(self, parts: Tensor) -> dict[str, float]:
        """Return the gradient norm of each layer, √Σ parts² over its parameters. Waits for the device."""
        layers = [layer_name(name) for name in self.weights]
        norms = dict.fromkeys(layers, 0.0)
        for layer, part in zip(layers, parts.tolist(), strict=True):
            norms[layer] = math.hypot(norms[layer], part)
        return norms

    def state(self) -> dict[str, Tensor]:
        """Return moments and step counts as named tensors; every process must call it."""
        if not self.has_state:
            return {}
        state = self.parallel.optimizer_state(self.model, self.optimizer)
        return {
            f"{self.prefix}.{number}.{key}": value
            for number, name in enumerate(self.weights)
            for key, value in state.get(name, {}).items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state` returned; every process must call it."""
        if not self.has_state:
            return
        state: OptimizerState = {}
        for number, name in enumerate(self.weights):
            prefix = f"{self.prefix}.{number}."
            if values := {
                key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
            }:
                state[name] = values
        self.parallel.load_optimizer_state(self.model, self.optimizer, state)


def _optimizer(groups: list[dict[str, Any]], config: TrainConfig) -> Optimizer:
    """Return the chosen optimizer; its fused kernel scales gradients and can skip a step."""
    options: dict[str, Any] = {
        "lr": config.learning_rate,
        "weight_decay": config.weight_decay,
        "fused": True,
    }
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, betas=config.betas, **options)
    optimizer = torch.optim.SGD(groups, momentum=config.momentum, **options)
    if config.momentum:
        # Otherwise, the kernel creates v in the first step, and leaves it uninitialised if that step is
        # skipped.
        for group in optimizer.param_groups:
            for weight in group["params"]:
                optimizer.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
    return optimizer


def layer_name(parameter: str) -> str:
    """Return the layer of a parameter: its path up to a number (`encoder.3`), else its first component."""
    path = parameter.split(".")
    end = next((place for place, component in enumerate(path) if component.isdecimal()), 0)
    return ".".join(path[: end + 1])


class MovingAverage:
    """Exponential moving average of the weights: w̄ ← d w̄ + (1-d) w, where d grows to its limit at first."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.live = dict(model.named_parameters())
        self.average = {name: weight.detach().clone() for name, weight in self.live.items()}

    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(
            list(self.average.values()), [weight.detach() for weight in self.live.values()], 1 - decay
        )

    def swap(self) -> None:
        """Swap the weights of the model and the average; a second call restores them."""
        for name, weight in self.live.items():
            weight.data, self.average[name] = self.average[name], weight.data
