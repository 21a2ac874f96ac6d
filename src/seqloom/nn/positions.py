"""Where a token stands, told to a model that sees its input as a set."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """(..., width): sin and cos of the position at wavelengths from 2π to 20,000π.

    PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(same): Vaswani et al. 2017, section 3.5.
    """
    rates = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10_000.0) / width))
    angles = positions.unsqueeze(-1) * rates  # (..., width / 2)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
