"""Sums and maxima over all state paths of a hidden Markov model, in time linear in the number of frames.

Rabiner 1989, "A tutorial on hidden Markov models". Frames are packed (see packed.py), so that one step of a
recursion is one matrix product over all sequences that have not ended. All values are logarithms. Before a
product with the transition matrix, each row is divided by its largest term; where that would lose a path (the
largest term leads nowhere, as in left-to-right models), the row is summed again in the log domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seqloom.statistical.hmm.packed import Packed

_MAX_TERMS = 1 << 22  # in memory at a time for a sum or maximum over predecessors: 32 MB in double precision


@dataclass(frozen=True)
class TransitionLinks:
    """Transition weights (K, K), and for every state a list of its predecessors only.

    A left-to-right model has two predecessors per state, whatever the number of states.
    """

    weights: Tensor  # (K, K)
    sources: Tensor  # (K, P): predecessors of each state
    log_weights: Tensor  # (K, P): −∞ where a state has fewer than P predecessors

    @classmethod
    def of(cls, weights: Tensor) -> TransitionLinks:
        degree = int((weights > 0).sum(0).max().clamp_min(1))
        best = weights.T.topk(degree, dim=1)
        return cls(weights, best.indices, best.values.log())

    def terms(self, x: Tensor) -> Tensor:
        """Return the log contribution of each link to each state, (R, K, P), given the logarithms x (R, K)."""
        return x[:, self.sources] + self.log_weights

    def max_rows(self) -> int:
        """Return the number of rows that `terms` may process at once."""
        return max(1, _MAX_TERMS // self.sources.numel())


@dataclass(frozen=True)
class Chain:
    """The Markov chain of a model: log π (K,), A (K, K), log A, and the links in both directions."""

    log_start: Tensor
    transition: Tensor
    log_transition: Tensor
    forward_links: TransitionLinks
    backward_links: TransitionLinks

    @classmethod
    def of(cls, start: Tensor, transition: Tensor) -> Chain:
        backward_links = TransitionLinks.of(transition.T.contiguous())
        return cls(start.log(), transition, transition.log(), TransitionLinks.of(transition), backward_links)


@dataclass(frozen=True)
class Filtered:
    """log P(z_t, x_t | x_<t) and log P(z_t | x_<t), both (N, K), both up to a constant per frame."""

    log_alpha: Tensor  # the largest value of each frame is 0
    log_predicted: Tensor  # on the scale of log_alpha of the previous frame
    log_likelihood: Tensor  # (B,) log P(x)


def forward(chain: Chain, log_density: Tensor, packed: Packed) -> Filtered:
    """Compute α_t(j) = b_j(x_t) Σ_i α_{t-1}(i) a_ij for all frames, given log_density = log b (N, K)."""
    alpha, predicted = torch.empty_like(log_density), torch.empty_like(log_density)
    total = torch.zeros(packed.sizes[0], dtype=torch.float64, device=alpha.device)
    alphas, predictions, densities = map(packed.by_time, (alpha, predicted, log_density))
    for t, size in enumerate(packed.sizes):
        predictions[t].copy_(log_product(alphas[t - 1][:size], chain.forward_links) if t else chain.log_start)
        torch.add(predictions[t], densities[t], out=alphas[t])
        total[:size] += _divide_out(alphas[t])
    # log P(x) = Σ_t (factor divided out at t) + log Σ_i α_T(i)
    return Filtered(alpha, predicted, total + alpha[packed.last].logsumexp(1))


def _divide_out(x: Tensor) -> Tensor:
    """Subtract the largest value of each row in place and return it, (R,); finite even if all are −∞."""
    top = x.amax(1).clamp_min_(torch.finfo(x.dtype).min)
    x.sub_(top.unsqueeze(1))
    return top


def backward(chain: Chain, log_density: Tensor, packed: Packed, log_end: Tensor | None = None) -> Tensor:
    """Compute log β_t(i) = log Σ_j a_ij b_j(x_{t+1}) β_{t+1}(j), (N, K), up to a constant per frame.

    β is 1 at the last frame or, with log_end (K,), the probability of ending in each state.
    """
    beta = torch.zeros_like(log_density)
    if log_end is not None:
        beta[packed.last] = log_end
    betas, densities = map(packed.by_time, (beta, log_density))
    for t in range(len(packed.sizes) - 1, 0, -1):
        x = densities[t] + betas[t]
        _divide_out(x)
        betas[t - 1][: packed.sizes[t]] = log_product(x, chain.backward_links)
    return beta


def log_product(x: Tensor, links: TransitionLinks) -> Tensor:
    """Return log(exp(x) @ weights) for rows (R, K) with maximum 0; exact even where exp(x) underflows."""
    product = x.exp() @ links.weights
    lost = product < torch.finfo(x.dtype).tiny / torch.finfo(x.dtype).eps  # may be affected by underflow
    result = product.log_()
    if bool(lost.any()):
        rows = lost.any(1).nonzero().squeeze(1)
        for chunk in torch.split(rows, links.max_rows()):
            result[chunk] = links.terms(x[chunk]).logsumexp(2)
    return result


def posteriors(filtered: Filtered, log_beta: Tensor) -> Tensor:
    """Return γ_t(i) = P(z_t = i | x), (N, K)."""
    gamma = filtered.log_alpha + log_beta
    gamma = gamma.sub_(gamma.amax(1, keepdim=True)).exp_()  # torch's softmax is slow for few states
    return gamma.div_(gamma.sum(1, keepdim=True))


def transition_counts(chain: Chain, filtered: Filtered, gamma: Tensor, packed: Packed) -> Tensor:
    """Return the expected number of transitions, Σ_t P(z_{t-1} = i, z_t = j | x), (K, K).

    P(z_{t-1} = i | z_t = j, x) = α_{t-1}(i) a_ij / P(z_t = j | x_<t), so given γ it takes one matrix product.
    """
    first = packed.sizes[0]
    before, predicted, after = packed.previous.to(gamma.device), filtered.log_predicted[first:], gamma[first:]
    tiny = torch.finfo(gamma.dtype).tiny / torch.finfo(gamma.dtype).eps
    kept = predicted.exp() >= tiny
    weight = torch.where(kept, after * predicted.neg().exp(), 0.0)
    counts = chain.transition * (filtered.log_alpha.exp()[before].T @ weight)
    lost, state = (~kept & (after > 0)).nonzero(as_tuple=True)
    if len(lost):
        back = filtered.log_alpha[before[lost]] + chain.log_transition[:, state].T  # (m, K)
        counts.index_add_(1, state, (back.softmax(1) * after[lost, state].unsqueeze(1)).T)
    return counts


def viterbi(chain: Chain, log_density: Tensor, packed: Packed) -> tuple[Tensor, Tensor]:
    """Return the states of the best path of each sequence, (N,), and log P(best path, x), (B,)."""
    delta, back = log_density.clone(), torch.zeros(log_density.shape, dtype=torch.long)
    deltas, backs = packed.by_time(delta), packed.by_time(back)
    deltas[0].add_(chain.log_start)
    for t, size in enumerate(packed.sizes[1:], 1):
        best, source = _best_predecessors(deltas[t - 1][:size], chain.forward_links)
        deltas[t].add_(best)
        backs[t].copy_(source)
    score, state = delta[packed.last].max(1)
    path = torch.zeros(len(delta), dtype=torch.long)
    path[packed.last] = state.cpu()
    paths = packed.by_time(path)
    for t in range(len(packed.sizes) - 1, 0, -1):
        paths[t - 1][: packed.sizes[t]] = backs[t].gather(1, paths[t].unsqueeze(1)).squeeze(1)
    return path, score


def _best_predecessors(delta: Tensor, links: TransitionLinks) -> tuple[Tensor, Tensor]:
    """Return max_i δ(i) a_ij and its argmax i, both (R, K)."""
    best = [links.terms(chunk).max(2) for chunk in torch.split(delta, links.max_rows())]
    indices = torch.cat([chunk.indices for chunk in best])
    sources = links.sources.expand(len(indices), -1, -1).gather(2, indices.unsqueeze(2)).squeeze(2)
    return torch.cat([chunk.values for chunk in best]), sources
