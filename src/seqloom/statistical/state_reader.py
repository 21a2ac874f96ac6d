"""Validation of tensors loaded from an untrusted checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_ROUNDING = 1e-3  # tolerated excess over 1 of a probability in single precision


class StateReader:
    """Typed access to a state dict; an invalid tensor raises a ValueError that names it.

    Axes are named by letters: every axis named K must have the same size in all tensors.
    """

    def __init__(self, state: Mapping[str, Tensor], **sizes: int) -> None:
        self.state, self.sizes = state, sizes

    def integers(
        self,
        name: str,
        *axes: str,
        dtype: torch.dtype = torch.int64,
        minimum: int = 0,
        below: int | None = None,
    ) -> Tensor:
        """Return a tensor of integers from `minimum` up to, but not including, `below`."""
        maximum = None if below is None else below - 1
        return self._in_range(self._checked(name, axes, dtype), name, minimum, maximum)

    def numbers(
        self, name: str, *axes: str, dtype: torch.dtype = torch.float64, minimum: float = -torch.inf
    ) -> Tensor:
        """Return a tensor of real numbers without NaN."""
        return self._in_range(self._checked(name, axes, dtype), name, minimum, torch.inf)

    def probabilities(self, name: str, *axes: str, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return a tensor of numbers from 0 to 1."""
        return self._in_range(self._checked(name, axes, dtype), name, 0, 1 + _ROUNDING)

    def _checked(self, name: str, axes: tuple[str, ...], dtype: torch.dtype) -> Tensor:
        tensor = self.state[name]
        if tensor.dtype != dtype:
            raise ValueError(f"{name} has dtype {tensor.dtype}, expected {dtype}")
        if tensor.dim() != len(axes):
            raise ValueError(f"{name} has {tensor.dim()} axes, expected {len(axes)}")
        for axis, size in zip(axes, tensor.shape, strict=True):
            if self.sizes.setdefault(axis, size) != size:
                raise ValueError(f"{name} has an axis of size {size}, expected {self.sizes[axis]}")
        return tensor

    @staticmethod
    def _in_range(tensor: Tensor, name: str, minimum: float, maximum: float | None) -> Tensor:
        valid = (tensor >= minimum) if maximum is None else (tensor >= minimum) & (tensor <= maximum)
        if not bool(valid.all()):  # comparisons with NaN are False, so NaN is rejected, too
            raise ValueError(f"{name} has values out of range")
        return tensor


def check_bounds(tensor: Tensor, name: str, *, parts: int, last: int) -> None:
    """Raise unless the tensor holds the boundaries of `parts` consecutive ranges that cover 0 to `last`."""
    if len(tensor) != parts + 1 or int(tensor[0]) or int(tensor[-1]) != last or bool((tensor.diff() < 0).any()):
        raise ValueError(f"{name} does not divide 0 to {last} into {parts} ranges")


def expect_size(found: int, expected: int, name: str) -> None:
    """Raise if a size differs from the one that the model was built for."""
    if found != expected:
        raise ValueError(f"{name} is {found}, expected {expected}")
