"""Divergence between two passes over the same batch, for R-Drop (Liang et al. 2021, arXiv:2106.14448)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.types import PAD

_CHUNK_ELEMENTS = 1 << 21  # logits of either pass alive at a time, 8 MB in float32


class _SymmetricKL(torch.autograd.Function):
    """Output layer, both softmaxes, the divergence and its gradients, chunk by chunk of rows.

    With d = log p - log q, the symmetric divergence is J = (KL(p|q) + KL(q|p)) / 2, and its gradients with
    respect to the logits are  (p (d - KL(p|q)) + p - q) / 2  and  (q (-d - KL(q|p)) + q - p) / 2.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, want_gradient: bool
    ) -> Tensor:
        grads = (torch.zeros_like(hidden), torch.zeros_like(weight), torch.zeros_like(bias))
        total = hidden.new_zeros(())
        rows = hidden.shape[0] // 2
        chunk = max(1, _CHUNK_ELEMENTS // weight.shape[0])
        for first in range(0, rows, chunk):
            last = min(first + chunk, rows)
            parts = slice(first, last), slice(rows + first, rows + last)
            h, other = (hidden[part] for part in parts)
            real = (targets[parts[0]] != PAD).to(h.dtype).unsqueeze(1)
            log_p, log_q = (torch.addmm(bias, x, weight.t()).log_softmax(-1) for x in (h, other))  # (n, V)
            p, q, d = log_p.exp(), log_q.exp(), log_p - log_q
            forward_kl, backward_kl = (p * d).sum(-1, keepdim=True), -(q * d).sum(-1, keepdim=True)
            total += ((forward_kl + backward_kl) * real).sum() / 2
            if want_gradient:
                half = real / 2
                slopes = (p * (d - forward_kl) + p - q) * half, (q * (-d - backward_kl) + q - p) * half
                for part, x, slope in zip(parts, (h, other), slopes, strict=True):
                    grads[0][part] = slope @ weight
                    grads[1].addmm_(slope.t(), x)
                    grads[2].add_(slope.sum(0))
        ctx.save_for_backward(*grads)
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        hidden, weight, bias = ctx.saved_tensors
        scale = upstream[0]
        return hidden * scale, weight * scale, bias * scale, None, None


def symmetric_kl(hidden: Tensor, output: nn.Linear, targets: Tensor) -> Tensor:
    """Return the summed divergence between the distributions of both halves of the rows.

    hidden (B, T, D) and targets (B, T) are two passes, one after the other, over the same sentences; positions
    with the target PAD are ignored.
    """
    rows = hidden.flatten(0, 1).to(output.weight.dtype)
    total: Tensor = _SymmetricKL.apply(  # type: ignore[no-untyped-call]
        rows, output.weight, output.bias, targets.flatten(), torch.is_grad_enabled()
    )
    return total
