"""Sequences of different lengths packed into one tensor without padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.errors import SeqloomError

Observations = Tensor | NDArray[Any]
"""One sequence: (T,) symbols, or (T, F) feature frames."""


@dataclass(frozen=True)
class Packed:
    """A group of sequences, longest first: all first frames, then all second frames, and so on."""

    frames: Tensor  # (N,) symbols or (N, F) features
    sizes: tuple[int, ...]  # number of sequences with a frame t, for each t; never increasing
    order: Tensor  # (B,) index of each row in the caller's sequences

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Index of the first frame of each time step."""
        return (0, *accumulate(self.sizes))[:-1]

    @cached_property
    def lengths(self) -> Tensor:
        """Number of frames of each row, (B,)."""
        ended = torch.tensor([*self.sizes, 0]).diff().neg()  # rows whose last frame is t
        return torch.repeat_interleave(torch.arange(1, len(ended) + 1), ended).flip(0)

    @cached_property
    def last(self) -> Tensor:
        """Index of the last frame of each row, (B,)."""
        return torch.tensor(self.offsets)[self.lengths - 1] + torch.arange(self.sizes[0])

    @cached_property
    def previous(self) -> Tensor:
        """Index of the preceding frame, (N − B,), for every frame except the first of each sequence."""
        sizes = torch.tensor(self.sizes)
        places = torch.arange(self.sizes[0], len(self.frames))
        return places - torch.repeat_interleave(sizes[:-1], sizes[1:])

    def by_time(self, values: Tensor) -> tuple[Tensor, ...]:
        """Split (N, ...) into views of the frames of each time step; row i is always the same sequence."""
        return tuple(values.split_with_sizes(self.sizes))

    def unpack(self, values: Tensor) -> list[Tensor]:
        """Split (N, ...) into the frames of each row, (T, ...)."""
        places = _places(self.lengths)
        rows = torch.empty_like(values)
        rows[places] = values
        return list(rows.split_with_sizes(self.lengths.tolist()))


def pack(
    sequences: Sequence[Observations],
    *,
    dtype: torch.dtype,
    device: torch.device,
    max_frames: int,
    width: int | None,
) -> list[Packed]:
    """Pack sequences of similar length into groups of at most `max_frames` frames, or of one longer sequence.

    `width` is the number of features of a frame; None means that frames are symbols.
    """
    rows = [torch.as_tensor(sequence) for sequence in sequences]
    for number, row in enumerate(rows, 1):
        _check(row, width, number)
    lengths = torch.tensor([len(row) for row in rows])
    order = torch.argsort(lengths, descending=True, stable=True)
    groups = []
    for group in _groups(lengths[order].tolist(), max_frames):
        index = order[group]
        joined = torch.cat([rows[i] for i in index.tolist()])
        if width is not None and not bool(torch.isfinite(joined).all()):
            raise _not_finite(rows)
        kind = torch.long if width is None else dtype
        frames = joined.to(device, kind)[_places(lengths[index]).to(device)]
        sizes = torch.bincount(lengths[index]).flip(0).cumsum(0).flip(0)[1:]
        groups.append(Packed(frames, tuple(sizes.tolist()), index))
    return groups


def _places(lengths: Tensor) -> Tensor:
    """Return the index of every packed frame in the concatenation of the rows, (N,)."""
    starts = lengths.cumsum(0) - lengths
    real = torch.arange(int(lengths[0])).unsqueeze(1) < lengths  # (T, B)
    time, row = real.nonzero(as_tuple=True)
    return starts[row] + time


def _groups(lengths: list[int], max_frames: int) -> Iterator[slice]:
    first, frames = 0, 0
    for i, length in enumerate(lengths):
        if frames and frames + length > max_frames:
            yield slice(first, i)
            first, frames = i, 0
        frames += length
    if frames:
        yield slice(first, len(lengths))


def _check(row: Tensor, width: int | None, number: int) -> None:
    if len(row.shape) == 0 or len(row) == 0:
        raise SeqloomError(f"Sequence {number} has no frames.", "remove empty sequences")
    shape = tuple(row.shape[1:])
    if width is None and shape:
        raise SeqloomError(
            f"Sequence {number} has frames of {shape[0]} numbers, but the model emits symbols.",
            "give a sequence of integers, or use Gaussian emissions",
        )
    if width is not None and shape != (width,):
        got = f"{shape[0]} numbers" if shape else "one symbol"
        raise SeqloomError(
            f"Sequence {number} has frames of {got}, but the model emits {width} features.",
            "use the same features as in training",
        )


def _not_finite(rows: list[Tensor]) -> SeqloomError:
    number = next(i for i, row in enumerate(rows, 1) if not bool(torch.isfinite(row).all()))
    return SeqloomError(f"Sequence {number} has values that are not finite.", "correct the features")
