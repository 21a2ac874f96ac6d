"""Dropout that draws one random byte per element instead of a full random number, which is faster on CPUs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.errors import SeqloomError

_LEVELS = 256  # a mask byte is kept when it is >= p x 256, so p is rounded to a multiple of 1/256


class _Dropout(torch.autograd.Function):
    """x * keep / P(keep); one 64-bit draw gives the mask of eight elements."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
        draws.random_(-(2**63), None)  # the full range, so that every bit is a fair coin
        keep = (draws.view(torch.uint8)[: x.numel()] >= threshold).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = _LEVELS / (_LEVELS - threshold)
        return _masked(x, keep, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return _masked(gradients[0], keep, ctx.scale), None


def _masked(x: Tensor, keep: Tensor, scale: float) -> Tensor:
    # Multiplying by a boolean takes a slow path in the CPU kernels; bytes converted to floats do not.
    return keep.view(torch.uint8).to(x.dtype).mul_(x).mul_(scale)


class Dropout(nn.Module):
    """Dropout with probability p during training; the remaining elements are scaled to keep the mean."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise SeqloomError(
                f"The dropout must be at least 0 and below 1, got {p}.", "use a number from 0 to 0.99"
            )
        self.threshold = min(round(p * _LEVELS), _LEVELS - 1)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.threshold == 0:
            return x
        dropped: Tensor = _Dropout.apply(x, self.threshold)  # type: ignore[no-untyped-call]
        return dropped

    def extra_repr(self) -> str:
        return f"p={self.threshold / _LEVELS:.4f}"
