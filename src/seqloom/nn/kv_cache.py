"""Key-value cache that grows by one position per step without a copy at every step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_GROWTH = 8  # positions allocated at a time


@dataclass(slots=True)
class _Buffer:
    """Keys (R, H, capacity, d_qk) and values (R, H, capacity, d_v); the first `used` positions are written."""

    keys: Tensor
    values: Tensor
    used: int


@dataclass(frozen=True, slots=True)
class KVCache:
    """Keys and values of the first `length` positions of a buffer.

    Several caches may share a buffer. The first one to grow writes in place, after the positions of all the
    others; a cache whose next position is already taken is copied to a new buffer. So no cache changes another.
    """

    buffer: _Buffer
    length: int

    @property
    def keys(self) -> Tensor:
        """Keys, (R, H, length, d_qk)."""
        return self.buffer.keys[:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """Values, (R, H, length, d_v)."""
        return self.buffer.values[:, :, : self.length]

    def index_select(self, dim: int, rows: Tensor) -> KVCache:
        """Return a copy with the given rows, for `select_rows`."""
        keys, values = (part.index_select(dim, rows) for part in (self.buffer.keys, self.buffer.values))
        return KVCache(_Buffer(keys, values, self.length), self.length)

    def append(self, key: Tensor, value: Tensor) -> KVCache:
        """Return the cache with one more position, (R, H, 1, d_qk) and (R, H, 1, d_v)."""
        buffer, full = self.buffer, self.length == self.buffer.keys.shape[2]
        if full or buffer.used > self.length:
            buffer = _Buffer(_extended(self.keys), _extended(self.values), self.length)
        buffer.keys[:, :, self.length] = key[:, :, 0]
        buffer.values[:, :, self.length] = value[:, :, 0]
        buffer.used = self.length + 1
        return KVCache(buffer, buffer.used)


def append(past: KVCache | None, key: Tensor, value: Tensor) -> KVCache:
    """Return the cache with one more position, or a new cache with that position only."""
    if past is None:
        past = KVCache(_Buffer(_extended(key[:, :, :0]), _extended(value[:, :, :0]), 0), 0)
    return past.append(key, value)


def _extended(x: Tensor) -> Tensor:
    return torch.cat((x, x.new_empty(*x.shape[:2], _GROWTH, x.shape[3])), dim=2)
