"""Where a token stands in the dependency tree of its sentence, told to a Transformer's encoder.

Wang, Tu, Wang & Shi 2019 (arXiv:1909.00383): the depth of a word is its absolute structural position, and every
pair of words has a relative one. Both stand beside the ordinary positions, which they complete.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqloom.nn.positions import AttentionPositions, Relative, sinusoids
from seqloom.types import CONTINUES


class TreePositions(NamedTuple):
    """The structural positions of a batch of trees."""

    depth: Tensor  # (B, S) edges between a token's word and the root of its tree
    relative: Tensor  # (B, S, S) of token i (the query) to token j (the key)


def tree_positions(heads: Tensor) -> TreePositions:
    """Depths and relative positions of heads (B, S): the place from 1 of the head's first token, 0 = a root.

    r(i, j) = depth(i) - depth(j) where one word is above the other, or both tokens are of one word; elsewhere
    r(i, j) = sign(i - j) (depth(i) + depth(j)). The end of a sentence and padding have the head 0: each is a
    tree of its own, so nothing about a word depends on them.
    """
    place = torch.arange(heads.shape[1], device=heads.device)
    word = torch.where(heads == CONTINUES, 0, place).cummax(dim=1).values  # the first token of a token's word
    above = torch.where(heads > 0, heads - 1, place)  # for a first token that of its head; a root's is its own
    depth, reached = torch.zeros_like(heads), word
    on_path = word.unsqueeze(2) == word.unsqueeze(1)  # (B, S, S): j's word is i's, or above it
    for _ in range(heads.shape[1]):  # each round climbs one edge; the deepest word says when to stop
        higher = above.gather(1, reached)
        climbs = higher != reached
        if not climbs.any():
            break
        depth, reached = depth + climbs, higher
        on_path = on_path | (reached.unsqueeze(2) == word.unsqueeze(1))
    own, other = depth.unsqueeze(2), depth.unsqueeze(1)
    across = (place.unsqueeze(1) - place).sign() * (own + other)
    return TreePositions(depth, torch.where(on_path | on_path.mT, own - other, across))


class TreeInput(nn.Module):
    """Adds tanh(W [PE(place), PE(depth)]): a non-linear mix of both absolute positions, as the paper has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.mix = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, at: Tensor, depth: Tensor) -> Tensor:
        """(B, S, D) from (B, S, D), the places (S) and the depths (B, S)."""
        places = sinusoids(at, self.width).expand(*depth.shape, -1)
        both = torch.cat((places, sinusoids(depth, self.width)), dim=-1)
        return x + self.mix(both.to(x.dtype)).tanh()


class _ByTree(Relative):
    """Shaw's vectors, chosen by r(i, j), which `at` (B, S, S) holds, not by the distance in the sentence."""

    def _index(self, at: Tensor, keys: int) -> Tensor:
        return at.unsqueeze(1).clamp(-self.clip, self.clip) + self.clip


class TreeRelative(AttentionPositions):
    """Vectors for the distance in the sentence and for the position in the tree join keys and values.

    q·(k + a + a'), Σ α (v + b + b') after Shaw et al. 2018: a and b for the clipped j - i, a' and b' for the
    clipped r(i, j). What other kinds call `at` is here r itself, (B, S, S).
    """

    needs_weights = True

    def __init__(self, qk_width: int, v_width: int, *, clip: int = 16, scaled: bool = True) -> None:
        super().__init__()
        self.linear = Relative(qk_width, v_width, clip=clip, scaled=scaled)
        self.tree = _ByTree(qk_width, v_width, clip=clip, scaled=scaled)

    def bias(self, queries: Tensor, at: Tensor, keys: int) -> Tensor:
        places = torch.arange(keys, device=at.device)
        return self.linear.bias(queries, places, keys) + self.tree.bias(queries, at, keys)

    def values(self, weights: Tensor, at: Tensor) -> Tensor:
        places = torch.arange(weights.shape[-1], device=at.device)
        return self.linear.values(weights, places) + self.tree.values(weights, at)
