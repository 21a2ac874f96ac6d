"""The random numbers that a caller would draw next."""

from __future__ import annotations

import random

import numpy as np
import torch


def random_state() -> tuple[bytes, bytes, object]:
    """Return the state of the generators of torch, numpy and Python."""
    numpys = np.random.get_state(legacy=False)["state"]["key"]  # type: ignore[call-overload, index]
    return torch.get_rng_state().numpy().tobytes(), numpys.tobytes(), random.getstate()
