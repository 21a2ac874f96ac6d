"""Keys and values of the positions so far, which grow by one a step without being copied at every step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_AHEAD = 8  # positions that room is made for at once


@dataclass(slots=True)
class _Buffer:
    """Keys (R, H, positions, d_qk) and values (R, H, positions, d_v), the first `used` positions written."""

    keys: Tensor
    values: Tensor
    used: int


@dataclass(frozen=True, slots=True)
class KVCache:
    """The first `length` positions of a room, to which one can be added.

    Several states may share a room: the first that grows writes behind what all of them see; one that finds
    its next position written by another moves into a room of its own. So no state changes another.
    """

    room: _Buffer
    length: int

    @property
    def keys(self) -> Tensor:
        """(R, H, length, d_qk)."""
        return self.room.keys[:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """(R, H, length, d_v)."""
        return self.room.values[:, :, : self.length]

    def index_select(self, dim: int, rows: Tensor) -> KVCache:
        """These rows of it: what `select_rows` asks of the leaves of a state."""
        keys, values = (part.index_select(dim, rows) for part in (self.room.keys, self.room.values))
        return KVCache(_Buffer(keys, values, self.length), self.length)

    def append(self, key: Tensor, value: Tensor) -> KVCache:
        """Return the cache with one more position, (R, H, 1, d_qk) and (R, H, 1, d_v)."""
        room, full = self.room, self.length == self.room.keys.shape[2]
        if full or room.used > self.length:
            room = _Buffer(_with_room(self.keys), _with_room(self.values), self.length)
        room.keys[:, :, self.length] = key[:, :, 0]
        room.values[:, :, self.length] = value[:, :, 0]
        room.used = self.length + 1
        return KVCache(room, room.used)


def append(past: KVCache | None, key: Tensor, value: Tensor) -> KVCache:
    """Return the cache with one more position; without a cache, one of that position alone."""
    if past is None:
        past = KVCache(_Buffer(_with_room(key[:, :, :0]), _with_room(value[:, :, :0]), 0), 0)
    return past.append(key, value)


def _with_room(x: Tensor) -> Tensor:
    return torch.cat((x, x.new_empty(*x.shape[:2], _AHEAD, x.shape[3])), dim=2)
