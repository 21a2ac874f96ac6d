"""Tensors that may come from a stranger, each looked at before it is used."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_ROUNDING = 1e-3  # by which a probability in single precision may exceed 1


class StateReader:
    """What `state` gave, or somebody says it did; a tensor that cannot be that is a ValueError with its name.

    Sizes are told by letters: an axis that is called K has the same size wherever it occurs.
    """

    def __init__(self, state: Mapping[str, Tensor], **sizes: int) -> None:
        self.state, self.sizes = state, sizes

    def integers(
        self, name: str, *axes: str, dtype: torch.dtype = torch.int64, least: int = 0, below: int | None = None
    ) -> Tensor:
        """Whole numbers from the least to those below a limit."""
        return self._within(self._shaped(name, axes, dtype), name, least, None if below is None else below - 1)

    def numbers(
        self, name: str, *axes: str, dtype: torch.dtype = torch.float64, least: float = -torch.inf
    ) -> Tensor:
        """Real numbers, of which none is undefined."""
        return self._within(self._shaped(name, axes, dtype), name, least, torch.inf)

    def probabilities(self, name: str, *axes: str, dtype: torch.dtype = torch.float64) -> Tensor:
        """Numbers from 0 to 1."""
        return self._within(self._shaped(name, axes, dtype), name, 0, 1 + _ROUNDING)

    def _shaped(self, name: str, axes: tuple[str, ...], dtype: torch.dtype) -> Tensor:
        tensor = self.state[name]
        if tensor.dtype != dtype:
            raise ValueError(f"{name} is of type {tensor.dtype}, not {dtype}")
        if tensor.dim() != len(axes):
            raise ValueError(f"{name} has {tensor.dim()} axes, not {len(axes)}")
        for axis, size in zip(axes, tensor.shape, strict=True):
            if self.sizes.setdefault(axis, size) != size:
                raise ValueError(f"{name} has {size} where {self.sizes[axis]} were to be expected")
        return tensor

    @staticmethod
    def _within(tensor: Tensor, name: str, least: float, most: float | None) -> Tensor:
        fits = (tensor >= least) if most is None else (tensor >= least) & (tensor <= most)
        if not bool(fits.all()):  # nor is NaN
            raise ValueError(f"{name} has numbers that cannot be")
        return tensor


def check_bounds(tensor: Tensor, name: str, *, parts: int, last: int) -> None:
    """Raises unless it says where so many parts begin and end that follow one another from 0 to the last."""
    if len(tensor) != parts + 1 or int(tensor[0]) or int(tensor[-1]) != last or bool((tensor.diff() < 0).any()):
        raise ValueError(f"{name} does not lead from 0 to {last} in {parts} parts")


def expect(found: int, wanted: int, what: str) -> None:
    """Raises if a model was made for another size."""
    if found != wanted:
        raise ValueError(f"{what} is {found} instead of {wanted}")
