"""AdamW whose normalisation, clipping and non-finite guard never make the device wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.training.config import TrainConfig


class Updater:
    """Turns summed gradients into one update.

    The gradient of the loss *sum* is divided by the token count here and nowhere else, so accumulation and
    ragged batches give the gradient of the one big batch.
    """

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self.parameters = [weight for weight in model.parameters() if weight.requires_grad]
        decayed = [weight for weight in self.parameters if weight.dim() > 1]
        plain = [weight for weight in self.parameters if weight.dim() <= 1]
        groups: list[dict[str, Any]] = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(
            groups, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay, fused=True
        )
        self.clip = config.clip

    def update(self, count: int, rate: float) -> tuple[Tensor, Tensor]:
        """Norm of the mean gradient before clipping, and 1.0 if it was not finite and the update skipped."""
        norm = torch.nn.utils.get_total_norm(self._gradients()) / count
        skipped = (~norm.isfinite()).float()
        excess = (norm / self.clip).clamp_min(1.0) if self.clip else torch.ones_like(norm)
        for group in self.adam.param_groups:
            group["lr"] = rate
        # The fused kernel divides by grad_scale and leaves everything alone when found_inf is 1.
        self.adam.grad_scale = excess * count  # type: ignore[attr-defined]
        self.adam.found_inf = skipped  # type: ignore[attr-defined]
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        return norm, skipped

    def _gradients(self) -> Iterable[Tensor]:
        return [weight.grad for weight in self.parameters if weight.grad is not None]

    def state(self) -> dict[str, Tensor]:
        """The moments and step counts as named tensors."""
        return {
            f"adam.{number}.{key}": value
            for number, weight in enumerate(self.parameters)
            for key, value in self.adam.state[weight].items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Takes back what `state` gave."""
        for number, weight in enumerate(self.parameters):
            prefix = f"adam.{number}."
            self.adam.state[weight] = {
                key.removeprefix(prefix): value.to(weight.device)
                for key, value in tensors.items()
                if key.startswith(prefix)
            }


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
