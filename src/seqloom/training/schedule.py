"""Learning-rate schedules."""

from __future__ import annotations

import math

from seqloom.training.config import TrainConfig


def learning_rate(config: TrainConfig, step: int, progress: float) -> float:
    """Return the learning rate of update `step` (from 1) at `progress` in [0, 1] of the nearest limit.

    All schedules rise linearly over `warmup` updates. Then `inverse-sqrt` decays with 1/√step, `cosine` and
    `linear` reach zero exactly at the limit (steps, minutes or epochs), and `constant` does not change.
    """
    if step < config.warmup:
        return config.learning_rate * step / config.warmup
    progress = min(max(progress, 0.0), 1.0)
    match config.schedule:
        case "inverse-sqrt":
            factor = math.sqrt(max(config.warmup, 1) / max(step, 1))
        case "cosine":
            factor = 0.5 * (1 + math.cos(math.pi * progress))
        case "linear":
            factor = 1 - progress
        case "constant":
            factor = 1.0
    return config.learning_rate * factor
