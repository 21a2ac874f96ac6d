"""Self-attention for long inputs: its cost grows with n, not with n².

All kinds have the projections and the interface of SelfAttention, so an encoder can use any of them. The output
for a sentence depends on its own length only, never on the padding of its batch.
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
# Positions that act on single vectors; the other kinds add a bias to each of the n² pairs.
LONG_POSITIONS: tuple[PositionName, ...] = ("none", "sinusoidal", "learned", "rotary")
DRAWS = 1024  # rows of the table of random numbers; block i uses row i % DRAWS
MAX_CHUNKS, MIN_QUERIES = 8, 1024  # at most this many chunks of blocks, each with at least this many queries


class LinformerAttention(SelfAttention):
    """Attention to r projected keys and values (Linformer: Wang et al. 2020).

    softmax(Q K'ᵀ / √d) V' with K' = E K / √n, V' = E V / √n. E is a learned r x n matrix, the first n columns
    of r x max_length, shared by all heads or one per head. The paper does not divide by √n; with it, K' and V'
    have the scale of K and V whatever the length of the sentence.
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
        """Return (B, T, D) for x (B, T, D); padding does not contribute to the projected keys and values."""
        assert not causal and at is None, "a projected key mixes past and future and has no position"
        length, longest = x.shape[1], self.projection.shape[-1]
        if length > longest:
            raise SeqloomError(
                f"Linformer attention takes sources of up to {longest} tokens, got {length}.",
                "train with a higher model.max_length",
            )
        q, k, v = self._project(x, torch.arange(length, device=x.device))
        real = x.new_ones(x.shape[:2]) if mask is None else mask.to(x.dtype)
        scale = real / real.sum(dim=1, keepdim=True).sqrt()  # (B, T): 1/√n, and 0 on padding
        matrix = self.projection[..., :length] * scale[:, None, None]  # (B, 1 or H, r, T)
        k, v = (torch.einsum("bhrt,bhtd->bhrd", matrix, part) for part in (k, v))
        return self.output(self.join(self.fused(q, k, v)))


class BlockSparseAttention(SelfAttention):
    """Block-sparse attention (BigBird: Zaheer et al. 2020).

    A block of queries attends to its own block of keys, `neighbours` on both sides, the first `global_blocks`
    and `random_blocks` others, drawn once; global blocks attend to all. Only the products of these blocks are
    computed.
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
        # Not persistent, as the seed recreates it. Integers, so that no change of precision rounds them.
        self.register_buffer("draws", torch.tensor(draws, dtype=torch.long), persistent=False)
        self.draws: Tensor

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, at: Tensor | None = None
    ) -> Tensor:
        """Return (B, T, D) for x (B, T, D). mask (B, T): True on real positions."""
        assert not causal and at is None, "blocks attend to both sides, in the order of the sequence"
        length = x.shape[1]
        if self.sees_all(length):
            return super().forward(x, mask=mask)
        real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        missing = -length % self.block
        x, real = pad(x, (0, 0, 0, missing)), pad(real, (0, missing))
        q, k, v = self._project(x, torch.arange(x.shape[1], device=x.device))
        context = self._sparse(q, k, v, real)
        if self.global_blocks:
            first = q[:, :, : self.global_blocks * self.block]
            context = torch.cat((self.fused(first, k, v, padding_mask(real)), context), dim=2)
        return self.output(self.join(context[:, :, :length]))

    def sees_all(self, length: int) -> bool:
        """Return whether all blocks attend to each other: full attention then gives the same, faster."""
        return length <= (self.global_blocks + self.neighbours + 1) * self.block

    def _sparse(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
        """Return the context of all non-global blocks of queries, (B, H, (N - g) b, d_v)."""
        seen, valid = self._visible_blocks(real)  # (B, N - g, m)
        step = max(
            math.ceil(seen.shape[1] / MAX_CHUNKS), MIN_QUERIES // (len(q) * self.block)
        )  # blocks at a time
        # A key is copied for every block that attends to it. With checkpointing, the copies are made again for
        # the gradient instead of being stored, and those of only one chunk exist at any time.
        contexts = []
        for start in range(0, seen.shape[1], step):
            chunk = slice(start, start + step)
            first, last = ((self.global_blocks + end) * self.block for end in (chunk.start, chunk.stop))
            inputs = q[:, :, first:last], k, v, real, seen[:, chunk], valid[:, chunk]
            contexts.append(
                checkpoint(self._attend_chunk, *inputs, use_reentrant=False, preserve_rng_state=False)
            )
        return torch.cat(contexts, dim=2)

    def _attend_chunk(
        self, q: Tensor, k: Tensor, v: Tensor, real: Tensor, seen: Tensor, valid: Tensor
    ) -> Tensor:
        """Return (B, H, Q b, d_v) for Q blocks of queries (B, H, Q b, d_qk) and visible blocks (B, Q, m)."""
        batch, heads, length, _ = q.shape
        allowed = real.view(batch, -1, self.block)[_sentence_index(seen), seen] & valid.unsqueeze(-1)
        allowed = self._restrict(allowed.flatten(2).unsqueeze(2))  # (B, Q, 1 or b, m b)
        # A padded query may have no real key; the softmax over no keys is NaN, in the gradients too.
        allowed = allowed | ~allowed.any(dim=-1, keepdim=True)
        queries = q.transpose(1, 2).reshape(-1, self.block, heads, self.qk_width).transpose(1, 2)
        context = self.fused(
            queries,
            self._gather_blocks(k, seen),
            self._gather_blocks(v, seen),
            allowed.flatten(0, 1).unsqueeze(1),
        )  # (B Q, H, b, d_v)
        return context.transpose(1, 2).reshape(batch, length, heads, self.v_width).transpose(1, 2)

    def _gather_blocks(self, x: Tensor, index: Tensor) -> Tensor:
        """Return blocks (B, Q, m) of x (B, H, N b, d), side by side: (B Q, H, m b, d)."""
        batch, heads, length, width = x.shape
        count = length // self.block
        blocks = x.transpose(1, 2).reshape(batch * count, self.block, heads, width)
        chosen = blocks.index_select(0, (_sentence_index(index) * count + index).flatten())
        return chosen.view(batch * index.shape[1], -1, heads, width).transpose(1, 2)

    def _restrict(self, allowed: Tensor) -> Tensor:
        """Return the allowed pairs inside blocks, (B, Q, 1 or b, m b), from (B, Q, 1, m b); by default all."""
        return allowed

    def _visible_blocks(self, real: Tensor) -> tuple[Tensor, Tensor]:
        """Return the key blocks of each query block, (B, N - g, m); False where missing or repeated."""
        count = real.shape[1] // self.block
        own = torch.arange(self.global_blocks, count, device=real.device)
        offsets = torch.arange(-self.neighbours, self.neighbours + 1, device=real.device)
        near = own[:, None] + offsets  # (N - g, 2k + 1)
        first = torch.arange(self.global_blocks, device=real.device).expand(len(own), -1)
        used = -(-real.sum(dim=1) // self.block).clamp_max(-1)  # (B,) blocks that contain a token
        drawn = self.draws[own % DRAWS] % used[:, None, None]  # (B, N - g, r)
        seen = torch.cat((torch.cat((near, first), dim=1).expand(len(real), -1, -1), drawn), dim=-1)
        inside = (seen >= 0) & (seen < count)
        repeated = (seen.unsqueeze(-1) == seen.unsqueeze(-2)).tril(-1).any(dim=-1)
        return seen.clamp(0, count - 1), inside & ~repeated


class WindowAttention(BlockSparseAttention):
    """Sliding-window attention: position i attends to j if |i - j| <= window, in blocks with masked corners."""

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

    def _restrict(self, allowed: Tensor) -> Tensor:
        query = torch.arange(self.block, device=allowed.device)
        key = torch.arange(allowed.shape[-1], device=allowed.device) - self.neighbours * self.block
        return allowed & ((key - query[:, None]).abs() <= self.window)


def _sentence_index(blocks: Tensor) -> Tensor:
    """Return the sentence indices (B, 1, 1), to be combined with block indices."""
    return torch.arange(len(blocks), device=blocks.device)[:, None, None]
