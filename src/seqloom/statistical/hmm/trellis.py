"""The trellis of a hidden Markov model over one text: all states at all positions, and the best path."""

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
    """Posteriors and best path of the states over the tokens of a text."""

    tokens: tuple[str, ...]
    states: tuple[str, ...]
    posteriors: Tensor  # (T, K): P(state | text) at every token
    path: tuple[int, ...]  # the most probable state sequence
    log_prob: float  # log P(path | text)
    transition_posteriors: Tensor  # (T − 1, K, K): P(state, next state | text) between adjacent tokens

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable data."""
        return {
            "tokens": list(self.tokens),
            "states": list(self.states),
            "path": [self.states[state] for state in self.path],
            "log_prob": self.log_prob,
            "posteriors": self.posteriors.tolist(),
        }


@runtime_checkable
class HasTrellis(Protocol):
    """A model that can show the hidden states of a text."""

    def trellis(self, text: str, tokenizers: TokenizerPair) -> Trellis: ...


def trellis_of(
    chain: Chain, log_density: Tensor, tokens: tuple[str, ...], states: tuple[str, ...], log_end: Tensor
) -> Trellis:
    """Compute the trellis of one text, given log b (T, K) of its tokens and log P(end | state) (K,)."""
    density = log_density.clone()
    density[-1] += log_end
    (packed,) = pack(
        [density], dtype=torch.float64, device=density.device, max_frames=len(density), width=density.shape[1]
    )
    filtered, log_beta = forward(chain, packed.frames, packed), backward(chain, packed.frames, packed)
    log_xi = filtered.log_alpha[:-1].unsqueeze(2) + chain.log_transition  # α a b β, Rabiner's eq. 37
    log_xi = log_xi + (packed.frames + log_beta)[1:].unsqueeze(1)
    path, score = viterbi(chain, packed.frames, packed)
    return Trellis(
        tokens,
        states,
        posteriors(filtered, log_beta),
        tuple(path.tolist()),
        float(score - filtered.log_likelihood),
        log_xi.flatten(1).softmax(1).view_as(log_xi),
    )
