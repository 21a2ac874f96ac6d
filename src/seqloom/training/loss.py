"""Label-smoothed cross entropy that never holds all logits of a batch in memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from seqloom.models.base import SequenceModel, VectorModel
from seqloom.training.rdrop import symmetric_kl
from seqloom.types import PAD, Batch

_CHUNK_ELEMENTS = 1 << 22  # logits alive at a time: 16 MB in float32, small enough to stay in cache


class Loss(NamedTuple):
    """Sums over real tokens; the division by the count happens once, at the update."""

    total: Tensor  # the minimised loss
    nll: Tensor  # -log p(y), for the perplexity


class _CrossEntropy(torch.autograd.Function):
    """Output layer, softmax, loss and their gradients, chunk by chunk of rows.

    With smoothing ε the target distribution is q = (1-ε) onehot(y) + ε/V, the loss Σ -q log p and its
    gradient with respect to the logits p - q (Szegedy et al. 2016, section 7). The loss is a sum, so
    the gradient of a chunk can be computed as soon as its logits are known, and the logits discarded.
    Besides the matrix products, the cost is in operations on every logit. To save some, the constant ε/V of q
    is subtracted from the gradients instead of the logits, and padding is masked in the hidden vectors.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
        want_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        rows, vocabulary = hidden.shape[0], weight.shape[0]
        grads = (torch.empty_like(hidden), torch.zeros_like(weight), torch.zeros_like(bias))
        total, nll_total = hidden.new_zeros(()), hidden.new_zeros(())
        mean_weight, mean_bias = weight.mean(0), bias.mean()
        chunk = max(1, _CHUNK_ELEMENTS // vocabulary)
        for first in range(0, rows, chunk):
            part = slice(first, first + chunk)
            h, y = hidden[part], targets[part]
            real = (y != PAD).to(h.dtype)
            logits = torch.addmm(bias, h, weight.t())  # (n, V)
            p = logits.softmax(-1)
            column = y.unsqueeze(1)
            # log Σ exp(logits) from the most likely symbol, whose probability never underflows.
            log_sum = logits.amax(-1) - p.amax(-1).log()
            nll = log_sum - logits.gather(1, column).squeeze(1)
            uniform = log_sum - (h @ mean_weight + mean_bias)  # mean over the vocabulary of -log p
            nll_total += (nll * real).sum()
            total += (((1 - smoothing) * nll + smoothing * uniform) * real).sum()
            if want_gradient:
                p.scatter_add_(1, column, p.new_full(column.shape, smoothing - 1))  # p - (1-ε) onehot
                grads[0][part] = (p @ weight - smoothing * mean_weight) * real.unsqueeze(1)
                grads[1].addmm_(p.t(), h * real.unsqueeze(1))
                grads[2].addmv_(p.t(), real)
        if want_gradient:
            real = (targets != PAD).to(hidden.dtype)
            grads[1].sub_(real @ hidden, alpha=smoothing / vocabulary)
            grads[2].sub_(real.sum(), alpha=smoothing / vocabulary)
        ctx.save_for_backward(*grads)
        ctx.mark_non_differentiable(nll_total)
        return total, nll_total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        hidden, weight, bias = ctx.saved_tensors
        scale = upstream[0]
        return hidden * scale, weight * scale, bias * scale, None, None, None


def cross_entropy(hidden: Tensor, output: nn.Linear, targets: Tensor, smoothing: float = 0.0) -> Loss:
    """Return the loss of hidden vectors (B, T, D) under the output layer; targets (B, T), PAD is ignored."""
    rows = hidden.flatten(0, 1).to(output.weight.dtype)
    total, nll = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        rows, output.weight, output.bias, targets.flatten(), smoothing, torch.is_grad_enabled()
    )
    return Loss(total, nll)


def vector_loss(outputs: Tensor, batch: Batch, *, distributions: bool) -> Loss:
    """Return the loss of outputs (B, T, F + 1): squared errors or cross entropies, and that of the end.

    A vector adds its mean squared error Σ (ŷ - y)² / F, or a distribution the cross entropy -Σ y log ŷ. Every
    position adds the binary cross entropy of "the sequence ends here".
    """
    assert batch.target_out is not None and batch.target_lengths is not None
    targets = batch.target_out.to(outputs.dtype)
    numbers, end = outputs[..., :-1], outputs[..., -1]
    positions = torch.arange(end.shape[1], device=end.device)
    last = positions == batch.target_lengths.unsqueeze(1) - 1
    real = batch.target_mask
    if distributions:
        each = -(targets * numbers.log_softmax(-1)).sum(-1)
    else:
        each = (numbers - targets).square().mean(-1)
    ends = binary_cross_entropy_with_logits(end, last.to(end.dtype), reduction="none")
    total = each[real & ~last].sum() + ends[real].sum()
    return Loss(total, total.detach())


class LossModule(nn.Module):
    """A model and its loss behind one forward, so that a call runs the hooks of DDP and FSDP.

    With R-Drop (Liang et al. 2021, equation 4) every sentence is in the batch twice, with other dropout masks,
    and the loss is the mean of both cross entropies plus rdrop / 2 x the symmetric KL divergence between both
    distributions. This is half of the equation, so a run with R-Drop has gradients of the usual size.
    """

    def __init__(self, model: SequenceModel, smoothing: float, precision: str, *, rdrop: float = 0.0) -> None:
        super().__init__()
        self.model, self.smoothing, self.precision, self.rdrop = model, smoothing, precision, rdrop

    def forward(self, batch: Batch) -> Loss:
        """Return the summed loss of a batch under teacher forcing."""
        device, low_precision = batch.source.device.type, self.precision == "bfloat16"
        with torch.autocast(device, torch.bfloat16) if low_precision else nullcontext():
            if isinstance(self.model, VectorModel):
                outputs = self.model(batch).float() if low_precision else self.model(batch)
                return vector_loss(outputs, batch, distributions=self.model.distributions)
            if not self.rdrop:
                hidden, targets = self._hidden(batch)
                return cross_entropy(hidden, self.model.output, targets, self.smoothing)
            hidden, targets = self._hidden(batch.twice())
            both = cross_entropy(hidden, self.model.output, targets, self.smoothing)
            divergence = symmetric_kl(hidden, self.model.output, targets)
            return Loss((both.total + self.rdrop * divergence) / 2, both.nll / 2)

    def _hidden(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return hidden vectors (B, T, D) and targets (B, T), or (1, N, D) and (1, N) without padding."""
        assert batch.target_out is not None
        hidden, targets = self.model.hidden(batch), batch.target_out
        if 2 * batch.target_tokens < targets.numel():  # mostly padding: exclude it from the output layer
            real = targets != PAD
            hidden, targets = hidden[real].unsqueeze(0), targets[real].unsqueeze(0)
        return hidden, targets
