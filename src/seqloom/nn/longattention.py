"""Self-attention for long inputs: its cost grows with n, not with n².

Each kind has the projections of SelfAttention and is called like it, so an encoder takes any of them. What a
sentence sees depends on its own length alone, never on the padding of its batch.
"""

from __future__ import annotations

import math
from random import Random
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

from seqloom.errors import SeqloomError
from seqloom.nn.masks import padding_mask
from seqloom.nn.multihead import SelfAttention
from seqloom.nn.positions import AttentionPositions, PositionName

LongAttentionName = Literal["full", "linformer", "bigbird", "window"]
# Positions that act before queries meet keys; the others are numbers for all n² pairs.
LONG_POSITIONS: tuple[PositionName, ...] = ("none", "sinusoidal", "learned", "rotary")
DRAWS = 1024  # rows in the table of random numbers; block i uses row i modulo this
PARTS, CHUNK = 8, 1024  # blocks are computed in so many parts, or in fewer that have so many queries


class LinformerAttention(SelfAttention):
    """n keys and values become r: softmax(Q K'ᵀ / √d) V' with K' = E K / √n, V' = E V / √n (Wang et al. 2020).

    E is a learned r x n matrix, the first n columns of r x max_length, one for all heads or one for each.
    Divided by √n, which the paper does not do, K' and V' are as large as K and V in short and long sentences.
    """

    def __init__(
        self,
        *shape: int,
        rank: int,
        max_length: int,
        per_head: bool,
        scaled: bool = True,
        positions: AttentionPositions | None = None,
    ) -> None:
        super().__init__(*shape, scaled=scaled, positions=positions)
        self.projection = nn.Parameter(torch.randn(self.heads if per_head else 1, rank, max_length))

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, at: Tensor | None = None
    ) -> Tensor:
        """(B, T, D) from (B, T, D); padding has no part in the projected keys and values."""
        assert not causal and at is None, "a projected key mixes past and future, and has no place"
        length, longest = x.shape[1], self.projection.shape[-1]
        if length > longest:
            raise SeqloomError(
                f"Linformer attention projects sources of up to {longest} tokens, and one has {length}.",
                "train with a higher model.max_length",
            )
        q, k, v = self._project(x, torch.arange(length, device=x.device))
        real = x.new_ones(x.shape[:2]) if mask is None else mask.to(x.dtype)
        share = real / real.sum(dim=1, keepdim=True).sqrt()  # (B, T): 1/√n, and 0 on padding
        matrix = self.projection[..., :length] * share[:, None, None]  # (B, 1 or H, r, T)
        k, v = (torch.einsum("bhrt,bhtd->bhrd", matrix, part) for part in (k, v))
        return self.output(self.join(self.fused(q, k, v)))


class BlockSparseAttention(SelfAttention):
    """Blocks of queries that each see a few blocks of keys (BigBird: Zaheer et al. 2020).

    A block sees itself, `neighbours` on both sides, the first `global_blocks` and `random_blocks` others drawn
    once; the global blocks see everything. Only the products of these blocks are computed.
    """

    def __init__(
        self,
        *shape: int,
        block: int,
        neighbours: int = 1,
        global_blocks: int = 0,
        random_blocks: int = 0,
        seed: int = 0,
        scaled: bool = True,
        positions: AttentionPositions | None = None,
    ) -> None:
        super().__init__(*shape, scaled=scaled, positions=positions)
        self.block, self.neighbours, self.global_blocks = block, neighbours, global_blocks
        random = Random(seed)
        draws = [[random.getrandbits(31) for _ in range(random_blocks)] for _ in range(DRAWS)]
        # No part of the weights: the seed makes the same table again. Integers, so that no precision rounds it.
        self.register_buffer("draws", torch.tensor(draws, dtype=torch.long), persistent=False)
        self.draws: Tensor

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, at: Tensor | None = None
    ) -> Tensor:
        """(B, T, D) from (B, T, D). mask (B, T): which positions are real."""
        assert not causal and at is None, "blocks see both sides, in the order of the sequence"
        length = x.shape[1]
        if self.sees_all(length):
            return super().forward(x, mask=mask)
        real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        short = -length % self.block
        x, real = pad(x, (0, 0, 0, short)), pad(real, (0, short))
        q, k, v = self._project(x, torch.arange(x.shape[1], device=x.device))
        context = self._sparse(q, k, v, real)
        if self.global_blocks:
            first = q[:, :, : self.global_blocks * self.block]
            context = torch.cat((self.fused(first, k, v, padding_mask(real)), context), dim=2)
        return self.output(self.join(context[:, :, :length]))

    def sees_all(self, length: int) -> bool:
        """Whether every block of so short a sequence sees every other, which full attention does faster."""
        return length <= (self.global_blocks + self.neighbours + 1) * self.block

    def _sparse(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
        """(B, H, (N - g) b, d_v): every block of queries but the global ones over the blocks that it sees."""
        seen, counts = self._seen(real)  # (B, N - g, m)
        step = max(math.ceil(seen.shape[1] / PARTS), CHUNK // (len(q) * self.block))  # blocks at a time
        # A key is copied for every block that sees it. Copied again for the gradient, these need not be kept,
        # and only those of one part exist at any time.
        parts = []
        for start in range(0, seen.shape[1], step):
            here = slice(start, start + step)
            first, last = ((self.global_blocks + end) * self.block for end in (here.start, here.stop))
            inputs = q[:, :, first:last], k, v, real, seen[:, here], counts[:, here]
            parts.append(checkpoint(self._part, *inputs, use_reentrant=False, preserve_rng_state=False))
        return torch.cat(parts, dim=2)

    def _part(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor, seen: Tensor, counts: Tensor) -> Tensor:
        """(B, H, Q b, d_v): Q blocks of queries (B, H, Q b, d_qk) over the blocks that each sees, (B, Q, m)."""
        batch, heads, length, _ = q.shape
        allowed = real.view(batch, -1, self.block)[_rows(seen), seen] & counts.unsqueeze(-1)
        allowed = self._limit(allowed.flatten(2).unsqueeze(2))  # (B, Q, 1 or b, m b)
        # Padding may see nothing real, and the softmax of nothing is not a number, which spoils gradients too.
        allowed = allowed | ~allowed.any(dim=-1, keepdim=True)
        queries = q.transpose(1, 2).reshape(-1, self.block, heads, self.qk_width).transpose(1, 2)
        context = self.fused(
            queries, self._pick(k, seen), self._pick(v, seen), allowed.flatten(0, 1).unsqueeze(1)
        )  # (B Q, H, b, d_v)
        return context.transpose(1, 2).reshape(batch, length, heads, self.v_width).transpose(1, 2)

    def _pick(self, x: Tensor, which: Tensor) -> Tensor:
        """(B Q, H, m b, d): of (B, H, N b, d) the blocks with the numbers (B, Q, m), side by side."""
        batch, heads, length, width = x.shape
        count = length // self.block
        blocks = x.transpose(1, 2).reshape(batch * count, self.block, heads, width)
        chosen = blocks.index_select(0, (_rows(which) * count + which).flatten())
        return chosen.view(batch * which.shape[1], -1, heads, width).transpose(1, 2)

    def _limit(self, allowed: Tensor) -> Tensor:
        """(B, Q, 1 or b, m b) from (B, Q, 1, m b): which pairs inside the blocks count; here all."""
        return allowed

    def _seen(self, real: Tensor) -> tuple[Tensor, Tensor]:
        """The blocks that each block sees, (B, N - g, m); False where one does not exist or is a repetition."""
        count = real.shape[1] // self.block
        own = torch.arange(self.global_blocks, count, device=real.device)
        beside = torch.arange(-self.neighbours, self.neighbours + 1, device=real.device)
        near = own[:, None] + beside  # (N - g, 2k + 1)
        first = torch.arange(self.global_blocks, device=real.device).expand(len(own), -1)
        sentence = -(-real.sum(dim=1) // self.block).clamp_max(-1)  # (B,) blocks with a token in them
        drawn = self.draws[own % DRAWS] % sentence[:, None, None]  # (B, N - g, r)
        seen = torch.cat((torch.cat((near, first), dim=1).expand(len(real), -1, -1), drawn), dim=-1)
        inside = (seen >= 0) & (seen < count)
        repeated = (seen.unsqueeze(-1) == seen.unsqueeze(-2)).tril(-1).any(dim=-1)
        return seen.clamp(0, count - 1), inside & ~repeated


class WindowAttention(BlockSparseAttention):
    """Position i sees the positions j with |i - j| <= window, by blocks whose corners are masked."""

    def __init__(
        self,
        *shape: int,
        window: int,
        block: int,
        scaled: bool = True,
        positions: AttentionPositions | None = None,
    ) -> None:
        neighbours = math.ceil(window / block)
        super().__init__(*shape, block=block, neighbours=neighbours, scaled=scaled, positions=positions)
        self.window = window

    def sees_all(self, length: int) -> bool:
        return length <= self.window + 1

    def _limit(self, allowed: Tensor) -> Tensor:
        query = torch.arange(self.block, device=allowed.device)
        key = torch.arange(allowed.shape[-1], device=allowed.device) - self.neighbours * self.block
        return allowed & ((key - query[:, None]).abs() <= self.window)


def _rows(which: Tensor) -> Tensor:
    """(B, 1, 1): the number of the sentence, to go with numbers of blocks."""
    return torch.arange(len(which), device=which.device)[:, None, None]
