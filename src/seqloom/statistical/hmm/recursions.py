"""The sums and maxima over all paths of a hidden Markov model, in time linear in the frames.

Rabiner 1989, "A tutorial on hidden Markov models". Frames are packed (see packed.py), so one step of a
recursion is one matrix product over all sequences that are still going on. All values are logarithms; a product
with the transition matrix is taken after the largest term of each row is divided out, and where that would lose
a path (the largest term leads nowhere, as in left-to-right models) the row is summed anew in logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seqloom.statistical.hmm.packed import Packed

_TERMS = 1 << 22  # of a sum or maximum over predecessors that are alive at a time: 32 MB in double precision


@dataclass(frozen=True)
class Links:
    """Weights (K, K) from one state to another, and for every state only those that lead there.

    A left-to-right model has two of them for each state, whatever the number of states.
    """

    weights: Tensor  # (K, K)
    sources: Tensor  # (K, P): where the links into each state come from
    log_weights: Tensor  # (K, P): −∞ where a state has fewer than P

    @classmethod
    def of(cls, weights: Tensor) -> Links:
        degree = int((weights > 0).sum(0).max().clamp_min(1))
        best = weights.T.topk(degree, dim=1)
        return cls(weights, best.indices, best.values.log())

    def terms(self, x: Tensor) -> Tensor:
        """(R, K, P): log of what each link brings into each state, given the logarithms x (R, K)."""
        return x[:, self.sources] + self.log_weights

    def rows(self) -> int:
        """How many rows may be followed at once."""
        return max(1, _TERMS // self.sources.numel())


@dataclass(frozen=True)
class Chain:
    """The hidden part of a model: log π (K,), A (K, K) and log A, and the links along and against it."""

    log_start: Tensor
    transition: Tensor
    log_transition: Tensor
    onward: Links
    back: Links

    @classmethod
    def of(cls, start: Tensor, transition: Tensor) -> Chain:
        back = Links.of(transition.T.contiguous())
        return cls(start.log(), transition, transition.log(), Links.of(transition), back)


@dataclass(frozen=True)
class Filtered:
    """log P(z_t, x_t | x_<t) and log P(z_t | x_<t), both (N, K) and both up to a constant per frame."""

    log_alpha: Tensor  # its largest value in a frame is 0
    log_predicted: Tensor  # by the scale of log_alpha one frame before
    log_likelihood: Tensor  # (B,) log P(x)


def forward(chain: Chain, log_density: Tensor, packed: Packed) -> Filtered:
    """α_t(j) = b_j(x_t) Σ_i α_{t-1}(i) a_ij for all frames, log_density = log b (N, K)."""
    alpha, predicted = torch.empty_like(log_density), torch.empty_like(log_density)
    total = torch.zeros(packed.sizes[0], dtype=torch.float64, device=alpha.device)
    alphas, expected, densities = map(packed.by_time, (alpha, predicted, log_density))
    for t, size in enumerate(packed.sizes):
        expected[t].copy_(log_product(alphas[t - 1][:size], chain.onward) if t else chain.log_start)
        torch.add(expected[t], densities[t], out=alphas[t])
        total[:size] += _divide_out(alphas[t])
    # log P(x) = Σ_t (what was divided out at t) + log Σ_i α_T(i)
    return Filtered(alpha, predicted, total + alpha[packed.last].logsumexp(1))


def _divide_out(x: Tensor) -> Tensor:
    """(R,): the largest value of each row, which becomes 0; finite, even if all are −∞."""
    top = x.amax(1).clamp_min_(torch.finfo(x.dtype).min)
    x.sub_(top.unsqueeze(1))
    return top


def backward(chain: Chain, log_density: Tensor, packed: Packed, log_end: Tensor | None = None) -> Tensor:
    """(N, K): log β_t(i) = log Σ_j a_ij b_j(x_{t+1}) β_{t+1}(j), up to a constant per frame.

    β is 1 at the last frame, or exp log_end (K,), the probability to end in a state.
    """
    beta = torch.zeros_like(log_density)
    if log_end is not None:
        beta[packed.last] = log_end
    betas, densities = map(packed.by_time, (beta, log_density))
    for t in range(len(packed.sizes) - 1, 0, -1):
        x = densities[t] + betas[t]
        _divide_out(x)
        betas[t - 1][: packed.sizes[t]] = log_product(x, chain.back)
    return beta


def log_product(x: Tensor, links: Links) -> Tensor:
    """log(exp(x) @ weights) for rows (R, K) whose largest value is 0; exact also where exp(x) vanishes."""
    product = x.exp() @ links.weights
    lost = product < torch.finfo(x.dtype).tiny / torch.finfo(x.dtype).eps  # what rounding may have changed
    result = product.log_()
    if bool(lost.any()):
        rows = lost.any(1).nonzero().squeeze(1)
        for part in torch.split(rows, links.rows()):
            result[part] = links.terms(x[part]).logsumexp(2)
    return result


def posteriors(filtered: Filtered, log_beta: Tensor) -> Tensor:
    """(N, K): γ_t(i) = P(z_t = i | x)."""
    gamma = filtered.log_alpha + log_beta
    gamma = gamma.sub_(gamma.amax(1, keepdim=True)).exp_()  # torch's softmax is slow over few states
    return gamma.div_(gamma.sum(1, keepdim=True))


def transition_counts(chain: Chain, filtered: Filtered, gamma: Tensor, packed: Packed) -> Tensor:
    """(K, K): Σ_t P(z_{t-1} = i, z_t = j | x), how often each transition is expected.

    P(z_{t-1} = i | z_t = j, x) = α_{t-1}(i) a_ij / P(z_t = j | x_<t), so with γ it takes one matrix product.
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
    """The states of the best path (N,), and (B,) log P(best path, x)."""
    delta, back = log_density.clone(), torch.zeros(log_density.shape, dtype=torch.long)
    deltas, backs = packed.by_time(delta), packed.by_time(back)
    deltas[0].add_(chain.log_start)
    for t, size in enumerate(packed.sizes[1:], 1):
        best, source = _best(deltas[t - 1][:size], chain.onward)
        deltas[t].add_(best)
        backs[t].copy_(source)
    score, state = delta[packed.last].max(1)
    path = torch.zeros(len(delta), dtype=torch.long)
    path[packed.last] = state.cpu()
    paths = packed.by_time(path)
    for t in range(len(packed.sizes) - 1, 0, -1):
        paths[t - 1][: packed.sizes[t]] = backs[t].gather(1, paths[t].unsqueeze(1)).squeeze(1)
    return path, score


def _best(delta: Tensor, links: Links) -> tuple[Tensor, Tensor]:
    """max_i δ(i) a_ij and its i, both (R, K)."""
    found = [links.terms(part).max(2) for part in torch.split(delta, links.rows())]
    chosen = torch.cat([one.indices for one in found])
    sources = links.sources.expand(len(chosen), -1, -1).gather(2, chosen.unsqueeze(2)).squeeze(2)
    return torch.cat([one.values for one in found]), sources
