"""Position encodings from the dependency tree of a source sentence, for a Transformer encoder.

Wang, Tu, Wang & Shi 2019 (arXiv:1909.00383): the depth of a word is its absolute structural position, and every
pair of words has a relative one. Both are used in addition to ordinary positions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqloom.nn.positions import AttentionPositions, Relative, sinusoids
from seqloom.types import CONTINUES


class TreePositions(NamedTuple):
    """Structural positions of a batch of trees."""

    depth: Tensor  # (B, S) number of edges from a token's word to the root
    relative: Tensor  # (B, S, S) r(i, j) of token i (the query) and token j (the key)


def tree_positions(heads: Tensor) -> TreePositions:
    """Return depths and relative positions for heads (B, S).

    A head is given by the position of its first token, from 1; 0 = root.

    r(i, j) = depth(i) - depth(j) if one word is an ancestor of the other or both tokens belong to the same
    word; otherwise r(i, j) = sign(i - j) (depth(i) + depth(j)). EOS and padding have the head 0, so each is a
    separate tree, and no position of a word depends on them.
    """
    position = torch.arange(heads.shape[1], device=heads.device)
    word = torch.where(heads == CONTINUES, 0, position).cummax(dim=1).values  # first token of each token's word
    parent = torch.where(heads > 0, heads - 1, position)  # a first token's parent; a root is its own parent
    depth, reached = torch.zeros_like(heads), word
    on_path = word.unsqueeze(2) == word.unsqueeze(1)  # (B, S, S): j's word is i's word or an ancestor
    for _ in range(heads.shape[1]):  # climbs one edge per round, until the deepest word has reached its root
        parents = parent.gather(1, reached)
        climbs = parents != reached
        if not climbs.any():
            break
        depth, reached = depth + climbs, parents
        on_path = on_path | (reached.unsqueeze(2) == word.unsqueeze(1))
    own, other = depth.unsqueeze(2), depth.unsqueeze(1)
    unrelated = (position.unsqueeze(1) - position).sign() * (own + other)
    return TreePositions(depth, torch.where(on_path | on_path.mT, own - other, unrelated))


class TreeInput(nn.Module):
    """Input positions tanh(W [PE(position), PE(depth)]), a non-linear combination as in the paper."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.mix = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, at: Tensor, depth: Tensor) -> Tensor:
        """Return (B, S, D) for x (B, S, D), positions (S) and depths (B, S)."""
        positions = sinusoids(at, self.width).expand(*depth.shape, -1)
        both = torch.cat((positions, sinusoids(depth, self.width)), dim=-1)
        return x + self.mix(both.to(x.dtype)).tanh()


class _TreeDistance(Relative):
    """Vectors of Shaw et al. 2018, indexed by r(i, j), passed as `at` (B, S, S), not by distance."""

    def _index(self, at: Tensor, keys: int) -> Tensor:
        return at.unsqueeze(1).clamp(-self.clip, self.clip) + self.clip


class TreeRelative(AttentionPositions):
    """Vectors for distance and tree position, added to keys and values.

    q·(k + a + a'), Σ α (v + b + b') as in Shaw et al. 2018: a and b for the clipped j - i, a' and b' for the
    clipped r(i, j). Unlike in other classes, `at` is r, (B, S, S).
    """

    needs_weights = True

    def __init__(self, qk_width: int, v_width: int, *, clip: int = 16, scaled: bool = True) -> None:
        super().__init__()
        self.linear = Relative(qk_width, v_width, clip=clip, scaled=scaled)
        self.tree = _TreeDistance(qk_width, v_width, clip=clip, scaled=scaled)

    def bias(self, queries: Tensor, at: Tensor, keys: int) -> Tensor:
        positions = torch.arange(keys, device=at.device)
        return self.linear.bias(queries, positions, keys) + self.tree.bias(queries, at, keys)

    def values(self, weights: Tensor, at: Tensor) -> Tensor:
        positions = torch.arange(weights.shape[-1], device=at.device)
        return self.linear.values(weights, positions) + self.tree.values(weights, at)
