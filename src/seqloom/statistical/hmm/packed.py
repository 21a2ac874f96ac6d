"""Sequences of different length, frame after frame in one tensor: no frame is padding."""

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
    """Some sequences, longest first: all first frames, then all second ones, and so on."""

    frames: Tensor  # (N,) symbols or (N, F) features
    sizes: tuple[int, ...]  # how many sequences have a frame t, for each t; never rising
    order: Tensor  # (B,) which sequence of the caller's each row is

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where the frames of each time begin."""
        return (0, *accumulate(self.sizes))[:-1]

    @cached_property
    def lengths(self) -> Tensor:
        """(B,) the frames of each row."""
        falls = torch.tensor([*self.sizes, 0]).diff().neg()
        return torch.repeat_interleave(torch.arange(1, len(falls) + 1), falls).flip(0)

    @cached_property
    def last(self) -> Tensor:
        """(B,) the place of each row's last frame."""
        return torch.tensor(self.offsets)[self.lengths - 1] + torch.arange(self.sizes[0])

    @cached_property
    def previous(self) -> Tensor:
        """(N − B,) for every frame but the first of its sequence: the place of the one before it."""
        sizes = torch.tensor(self.sizes)
        places = torch.arange(self.sizes[0], len(self.frames))
        return places - torch.repeat_interleave(sizes[:-1], sizes[1:])

    def by_time(self, values: Tensor) -> tuple[Tensor, ...]:
        """What belongs to the frames of each time, as views of (N, ...); the same rows first, every time."""
        return tuple(values.split_with_sizes(self.sizes))

    def unpack(self, values: Tensor) -> list[Tensor]:
        """What belongs to the frames of each row, (T, ...), given (N, ...)."""
        places = _places(self.lengths)
        rows = torch.empty_like(values)
        rows[places] = values
        return list(rows.split_with_sizes(self.lengths.tolist()))


def pack(
    sequences: Sequence[Observations],
    *,
    dtype: torch.dtype,
    device: torch.device,
    most: int,
    width: int | None,
) -> list[Packed]:
    """The sequences in groups of at most so many frames (or one sequence), each of like lengths.

    A width is that of feature frames, None says that the frames are symbols.
    """
    rows = [torch.as_tensor(one) for one in sequences]
    for number, row in enumerate(rows, 1):
        _check(row, width, number)
    lengths = torch.tensor([len(row) for row in rows])
    order = torch.argsort(lengths, descending=True, stable=True)
    groups = []
    for group in _cut(lengths[order].tolist(), most):
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
    """(N,) for every packed frame its place when the rows stand one after the other."""
    starts = lengths.cumsum(0) - lengths
    real = torch.arange(int(lengths[0])).unsqueeze(1) < lengths  # (T, B)
    time, row = real.nonzero(as_tuple=True)
    return starts[row] + time


def _cut(lengths: list[int], most: int) -> Iterator[slice]:
    first, frames = 0, 0
    for i, length in enumerate(lengths):
        if frames and frames + length > most:
            yield slice(first, i)
            first, frames = i, 0
        frames += length
    if frames:
        yield slice(first, len(lengths))


def _check(row: Tensor, width: int | None, number: int) -> None:
    if len(row.shape) == 0 or len(row) == 0:
        raise SeqloomError(f"Sequence {number} has no frames.", "leave empty sequences out")
    shape = tuple(row.shape[1:])
    if width is None and shape:
        raise SeqloomError(
            f"Sequence {number} has frames of {shape[0]} numbers, but the model emits symbols.",
            "give a row of whole numbers, or use Gaussian emissions",
        )
    if width is not None and shape != (width,):
        got = f"{shape[0]} numbers" if shape else "one symbol"
        raise SeqloomError(
            f"Sequence {number} has frames of {got}, but the model emits {width} features.",
            "use the features that it was trained with",
        )


def _not_finite(rows: list[Tensor]) -> SeqloomError:
    number = next(i for i, row in enumerate(rows, 1) if not bool(torch.isfinite(row).all()))
    return SeqloomError(f"Sequence {number} has values that are not finite.", "mend the features")
