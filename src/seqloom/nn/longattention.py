"""Self-attention for long inputs: its cost grows with n, not with n².

All kinds have the projections and the interface of SelfAttention, so an encoder can use any of them. The output
for a sentence depends on its own length only, never on the padding of its batch.
"""

from __future__ import annotations

import math
from random import Random
from typing import Literal, Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

from seqloom.errors import SeqloomError
from seqloom.nn.masks import Visibility, padding_mask
from seqloom.nn.multihead import SelfAttention, SelfAttentionOptions
from seqloom.nn.positions import PositionName
from seqloom.nn.prefix import PrefixAttention

LongAttentionName = Literal["full", "linformer", "bigbird", "window"]
# Positions that act on single vectors; the other kinds add a bias to each of the n² pairs.
LONG_POSITIONS: tuple[PositionName, ...] = ("none", "sinusoidal", "learned", "rotary")
_NO_BLOCK = 2**62  # larger than the number of any block
DRAWS = 1024  # rows of the table of random numbers; block i uses row i % DRAWS
MAX_CHUNKS, MIN_QUERIES = 8, 1024  # at most this many chunks of blocks, each with at least this many queries


class LinformerAttention(SelfAttention):
    """Attention to r projected keys and values (Linformer: Wang et al. 2020).

    softmax(Q K'ᵀ / √d) V' with K' = E K / √n, V' = F V / √n. E is a learned r x n matrix, the first n columns
    of r x max_length, shared by all heads or one per head. F is E, or another such matrix. The paper does not
    divide by √n; with it, K' and V' have the scale of K and V whatever the length of the sentence.
    """

    def __init__(
        self,
        *shape: int,
        rank: int,
        max_length: int,
        per_head: bool = False,
        separate: bool = False,
        **options: Unpack[SelfAttentionOptions],
    ) -> None:
        super().__init__(*shape, **options)
        size = (self.heads if per_head else 1, rank, max_length)
        self.projection = nn.Parameter(torch.randn(size))  # E
        self.value_projection = nn.Parameter(torch.randn(size)) if separate else None  # F; None: F = E

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, at: Tensor | None = None
    ) -> Tensor:
        """Return (B, T, D) for x (B, T, D); padding does not contribute to the projected keys and values."""
        assert not causal and at is None, "a projected key mixes past and future and has no position"
        return self.output(self.join(self.fused(*self._project_to_rank(x, mask))))

    def weights(
        self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, at: Tensor | None = None
    ) -> Tensor:
        """Return the weights of the projected keys, (B, H, T, r)."""
        assert not causal and at is None, "a projected key mixes past and future and has no position"
        q, k, v = self._project_to_rank(x, mask)
        return self.attend(self.scores(q, k), v)[1]

    def _project_to_rank(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (B, H, T, d_qk), and projected keys and values (B, H, r, d)."""
        length, longest = x.shape[1], self.projection.shape[-1]
        if length > longest:
            raise SeqloomError(
                f"Linformer attention takes sources of up to {longest} tokens, got {length}.",
                "train with a higher model.max_length",
            )
        q, k, v = self._project(x, torch.arange(length, device=x.device))
        real = x.new_ones(x.shape[:2]) if mask is None else mask.to(x.dtype)
        scale = real / real.sum(dim=1, keepdim=True).sqrt()  # (B, T): 1/√n, and 0 on padding
        scale = scale[:, None, None]
        e = self.projection[..., :length] * scale  # (B, 1 or H, r, T)
        f = e if self.value_projection is None else self.value_projection[..., :length] * scale
        k, v = (torch.einsum("bhrt,bhtd->bhrd", *pair) for pair in ((e, k), (f, v)))
        return q, k, v

    def share_projections(self, other: LinformerAttention) -> None:
        """Use the projections of another layer."""
        self.projection, self.value_projection = other.projection, other.value_projection


class BlockSparseAttention(SelfAttention):
    """Block-sparse attention (BigBird: Zaheer et al. 2020).

    A block of queries attends to its own block of keys, `neighbours` on both sides, the first `global_blocks`
    and `random_blocks` others, drawn once; global blocks attend to all. Only the products of these blocks are
    computed. If `causal`, all of them are restricted to the past.
    """

    causal = False

    def __init__(
        self,
        *shape: int,
        block: int,
        neighbours: int = 1,
        global_blocks: int = 0,
        random_blocks: int = 0,
        seed: int = 0,
        **options: Unpack[SelfAttentionOptions],
    ) -> None:
        super().__init__(*shape, **options)
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
        assert causal == self.causal and at is None, "blocks attend in the order of the sequence"
        length = x.shape[1]
        if self.sees_all(length):
            return super().forward(x, mask=mask, causal=causal)
        real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        missing = -length % self.block
        x, real = pad(x, (0, 0, 0, missing)), pad(real, (0, missing))
        q, k, v = self._project(x, torch.arange(x.shape[1], device=x.device))
        context = self._sparse(q, k, v, real)
        if self.global_blocks:
            end = self.global_blocks * self.block
            first = q[:, :, :end]
            if self.causal:
                leading = self.fused(first, k[:, :, :end], v[:, :, :end], causal=True)
            else:
                leading = self.fused(first, k, v, padding_mask(real))
            context = torch.cat((leading, context), dim=2)
        return self.output(self.join(context[:, :, :length]))

    def sees_all(self, length: int) -> bool:
        """Return whether all blocks attend to each other: full attention then gives the same, faster."""
        return length <= (self.global_blocks + self.neighbours + 1) * self.block

    def visibility(self, real: Tensor, *, causal: bool = False) -> Tensor:
        """Return a `Visibility` code for every query and key, (B, T, T)."""
        assert causal == self.causal
        length = real.shape[1]
        padded = pad(real, (0, -length % self.block))
        count = padded.shape[1] // self.block
        blocks = real.new_full((len(real), count, count), Visibility.GLOBAL, dtype=torch.long)
        if count > self.global_blocks:
            seen, valid = self._visible_blocks(padded)  # (B, N - g, m): near, global and random blocks
            counts = torch.tensor((len(self._offsets()), self.global_blocks, self.draws.shape[1]))
            codes = torch.tensor((Visibility.VISIBLE, Visibility.GLOBAL, Visibility.RANDOM))
            found = valid * codes.repeat_interleave(counts).to(real.device)
            hidden = torch.zeros_like(blocks[:, self.global_blocks :])
            blocks[:, self.global_blocks :] = hidden.scatter_reduce(2, seen, found, "amax")
        pairs = blocks.repeat_interleave(self.block, dim=1).repeat_interleave(self.block, dim=2)
        visible = pairs[:, :length, :length] * real.unsqueeze(1)
        return visible.tril() if causal else visible

    def sees(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return whether a query at position (R, 1) of causal attention sees keys at positions (R, K)."""
        assert self.causal
        seen, valid = self._past_blocks(query[:, 0] // self.block)  # (R, m)
        found = ((keys // self.block).unsqueeze(-1) == seen.unsqueeze(1)) & valid.unsqueeze(1)
        leads = query < self.global_blocks * self.block
        return (found.any(dim=-1) | leads) & (keys <= query)

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
        """Return the allowed pairs inside blocks, (B, Q, 1 or b, m b), from (B, Q, 1, m b).

        By default all, but a causal query sees its own block, which follows `neighbours` others, up to itself.
        """
        if not self.causal:
            return allowed
        query = torch.arange(self.block, device=allowed.device)
        key = torch.arange(allowed.shape[-1], device=allowed.device) - self.neighbours * self.block
        return allowed & ((key <= query[:, None]) | (key >= self.block))

    def _offsets(self) -> range:
        """Return the near blocks, relative to the block of the query."""
        return range(-self.neighbours, 1 if self.causal else self.neighbours + 1)

    def _visible_blocks(self, real: Tensor) -> tuple[Tensor, Tensor]:
        """Return the key blocks of each query block, (B, N - g, m); False where missing or repeated."""
        count = real.shape[1] // self.block
        own = torch.arange(self.global_blocks, count, device=real.device)
        if self.causal:
            seen, valid = (found.expand(len(real), -1, -1) for found in self._past_blocks(own))
        else:
            used = -(-real.sum(dim=1) // self.block).clamp_max(-1)  # (B,) blocks that contain a token
            seen, valid = self._draw(own.expand(len(real), -1), used.unsqueeze(1))
        return seen.clamp_max(count - 1), valid & (seen < count)

    def _past_blocks(self, own: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same for causal attention, (..., m), which depends on the query block (...) only."""
        return self._draw(own, own + 1)

    def _draw(self, own: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
        """Return near, global and random key blocks (..., m) of query blocks (...), and which are valid.

        Random blocks are drawn from the first `used` (...) blocks without those that are visible already and
        without repetition; they are invalid if no such block is left.
        """
        near = own.unsqueeze(-1) + torch.tensor(self._offsets(), device=own.device)
        first = torch.arange(self.global_blocks, device=own.device).expand(*own.shape, -1)
        seen = torch.cat((near, first), dim=-1)
        repeated = (seen.unsqueeze(-1) == seen.unsqueeze(-2)).tril(-1).any(dim=-1)
        valid = (seen >= 0) & ~repeated
        for column in self.draws[own % DRAWS].unbind(dim=-1):
            known = valid & (seen < used.unsqueeze(-1))
            left = used - known.sum(dim=-1)  # blocks to draw from
            drawn = column % left.clamp_min(1)  # among those that are left; skip the others, in their order
            for block in seen.masked_fill(~known, _NO_BLOCK).sort(dim=-1).values.unbind(dim=-1):
                drawn = drawn + (drawn >= block)
            seen = torch.cat((seen, drawn.unsqueeze(-1)), dim=-1)
            valid = torch.cat((valid, (left > 0).unsqueeze(-1)), dim=-1)
        return seen.clamp_min(0), valid


class WindowAttention(BlockSparseAttention):
    """Sliding-window attention: position i attends to j if |i - j| <= window, in blocks with masked corners."""

    def __init__(self, *shape: int, window: int, block: int, **options: Unpack[SelfAttentionOptions]) -> None:
        super().__init__(*shape, block=block, neighbours=math.ceil(window / block), **options)
        self.window = window

    def sees_all(self, length: int) -> bool:
        return length <= self.window + 1

    def visibility(self, real: Tensor, *, causal: bool = False) -> Tensor:
        position = torch.arange(real.shape[1], device=real.device)
        near = (position - position[:, None]).abs() <= self.window
        return super().visibility(real, causal=causal) * near

    def sees(self, query: Tensor, keys: Tensor) -> Tensor:
        return (keys <= query) & (query - keys <= self.window)

    def _restrict(self, allowed: Tensor) -> Tensor:
        query = torch.arange(self.block, device=allowed.device)
        key = torch.arange(allowed.shape[-1], device=allowed.device) - self.neighbours * self.block
        return super()._restrict(allowed) & ((key - query[:, None]).abs() <= self.window)


class CausalBlockAttention(BlockSparseAttention, PrefixAttention):
    """Block-sparse attention to the past, for language models."""

    causal = True


class CausalWindowAttention(WindowAttention, PrefixAttention):
    """Attention to the last `window` positions and to the position itself, for language models."""

    causal = True


def _sentence_index(blocks: Tensor) -> Tensor:
    """Return the sentence indices (B, 1, 1), to be combined with block indices."""
    return torch.arange(len(blocks), device=blocks.device)[:, None, None]
