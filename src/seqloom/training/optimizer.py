"""AdamW whose normalisation, clipping and non-finite guard never make the device wait."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.team import Team
from seqloom.training.config import TrainConfig
from seqloom.training.layout import Layout


class Update(NamedTuple):
    """What happened at an update, still on the device."""

    norm: Tensor  # of the mean gradient, before clipping
    parts: Tensor  # (P,) the same for each parameter: norm² = Σ parts²
    excess: Tensor  # what the gradient was divided by to keep it within the limit; 1.0 if it was
    skipped: Tensor  # 1.0 if it was not finite, and nothing was changed


class Updater:
    """Turns summed gradients into one update.

    The gradient of the loss *sum* is divided by the token count here and nowhere else, so accumulation and
    ragged batches give the gradient of the one big batch.
    """

    def __init__(self, model: nn.Module, config: TrainConfig, layout: Layout | None = None) -> None:
        self.layout = layout or Layout(Team())
        named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
        self.weights = [weight for _, weight in named]
        self.parameters = [self.layout.own(weight) for weight in self.weights]  # what this process looks after
        self.layers = [layer_name(name) for name, _ in named]  # of each parameter, tied ones once
        decayed = [own for own in self.parameters if own.dim() > 1]
        plain = [own for own in self.parameters if own.dim() <= 1]
        groups: list[dict[str, Any]] = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(
            groups, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay, fused=True
        )
        self.clip = config.clip

    def update(self, count: int, rate: float) -> Update:
        """Moves the weights by the mean gradient and forgets it; its norm and what was done to it."""
        for own, weight in zip(self.parameters, self.weights, strict=True):
            own.grad = None if weight.grad is None else self.layout.own(weight.grad)
        parts = self.layout.norms(torch.stack(torch._foreach_norm(self._gradients()))) / count
        norm = torch.linalg.vector_norm(parts)
        skipped = (~norm.isfinite()).float()
        excess = (norm / self.clip).clamp_min(1.0) if self.clip else torch.ones_like(norm)
        for group in self.adam.param_groups:
            group["lr"] = rate
        # The fused kernel divides by grad_scale and leaves everything alone when found_inf is 1.
        self.adam.grad_scale = excess * count  # type: ignore[attr-defined]
        self.adam.found_inf = skipped  # type: ignore[attr-defined]
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        for weight in self.weights:
            weight.grad = None
        return Update(norm, parts, excess, skipped)

    def _gradients(self) -> list[Tensor]:
        """One of each parameter; a parameter that the loss did not use has the gradient 0."""
        return [weight.new_zeros(()) if weight.grad is None else weight.grad for weight in self.parameters]

    def layer_norms(self, parts: Tensor) -> dict[str, float]:
        """The norms of an update by layer: √Σ parts² over the parameters of each. Waits for the device."""
        norms = dict.fromkeys(self.layers, 0.0)
        for layer, part in zip(self.layers, parts.tolist(), strict=True):
            norms[layer] = math.hypot(norms[layer], part)
        return norms

    def state(self) -> dict[str, Tensor]:
        """The moments and step counts as named tensors; where weights are in slices, all have to call it."""
        return {
            f"adam.{number}.{key}": self.layout.join(weight, value)
            for number, (own, weight) in enumerate(zip(self.parameters, self.weights, strict=True))
            for key, value in self.adam.state[own].items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Takes back what `state` gave."""
        for number, (own, weight) in enumerate(zip(self.parameters, self.weights, strict=True)):
            prefix = f"adam.{number}."
            self.adam.state[own] = {
                key.removeprefix(prefix): self.layout.cut(weight, value)
                for key, value in tensors.items()
                if key.startswith(prefix)
            }


def layer_name(parameter: str) -> str:
    """The layer of a parameter: its path up to the first number (`encoder.3`), else its first component."""
    path = parameter.split(".")
    end = next((place for place, component in enumerate(path) if component.isdecimal()), 0)
    return ".".join(path[: end + 1])


class MovingAverage:
    """Exponential moving average of the weights: w̄ ← d w̄ + (1-d) w, d growing to its limit at first."""

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
        """Exchanges the model's weights and the average; twice is as before."""
        for name, weight in self.live.items():
            weight.data, self.average[name] = self.average[name], weight.data
