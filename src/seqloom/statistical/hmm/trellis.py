"""What a hidden Markov model sees in one text: all states at all positions, and the best way through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from seqloom.statistical.hmm.packed import pack
from seqloom.statistical.hmm.recursions import Chain, backward, forward, posteriors, viterbi
from seqloom.text.pair import TokenizerPair


@dataclass(frozen=True)
class Trellis:
    """The tokens of a text, the names of the states, and how they meet."""

    tokens: tuple[str, ...]
    states: tuple[str, ...]
    posteriors: Tensor  # (T, K): P(state | text) at every token
    path: tuple[int, ...]  # the most probable states
    log_prob: float  # log P(path | text)
    ways: Tensor  # (T − 1, K, K): P(state, next state | text) between two tokens

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "tokens": list(self.tokens),
            "states": list(self.states),
            "path": [self.states[state] for state in self.path],
            "log_prob": self.log_prob,
            "posteriors": self.posteriors.tolist(),
        }


@runtime_checkable
class HasTrellis(Protocol):
    """A model with hidden states that can show them."""

    def trellis(self, text: str, tokenizers: TokenizerPair) -> Trellis: ...


def trellis_of(
    chain: Chain, log_density: Tensor, tokens: tuple[str, ...], states: tuple[str, ...], log_end: Tensor
) -> Trellis:
    """The trellis of one text, given log b (T, K) of its tokens and log P(end | state) (K,)."""
    density = log_density.clone()
    density[-1] += log_end
    (packed,) = pack(
        [density], dtype=torch.float64, device=density.device, most=len(density), width=density.shape[1]
    )
    filtered, log_beta = forward(chain, packed.frames, packed), backward(chain, packed.frames, packed)
    log_ways = filtered.log_alpha[:-1].unsqueeze(2) + chain.log_transition  # α a b β, by Rabiner's eq. 37
    log_ways = log_ways + (packed.frames + log_beta)[1:].unsqueeze(1)
    path, score = viterbi(chain, packed.frames, packed)
    return Trellis(
        tokens,
        states,
        posteriors(filtered, log_beta),
        tuple(path.tolist()),
        float(score - filtered.log_likelihood),
        log_ways.flatten(1).softmax(1).view_as(log_ways),
    )
