from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest

from seqloom.training.config import TrainConfig
from seqloom.training.schedule import learning_rate

FACTORS: dict[str, Callable[[int, float], float]] = {
    "inverse-sqrt": lambda step, progress: math.sqrt(100 / step),
    "cosine": lambda step, progress: (1 + math.cos(math.pi * progress)) / 2,
    "linear": lambda step, progress: 1 - progress,
    "constant": lambda step, progress: 1.0,
}


@pytest.mark.parametrize("schedule", FACTORS)
def test_the_rate_follows_its_formula(schedule: str) -> None:
    config = TrainConfig.model_validate({"schedule": schedule, "warmup": 100, "learning_rate": 0.02})
    for step, progress in ((100, 0.1), (250, 0.25), (999, 0.999), (1000, 1.0)):
        expected = 0.02 * FACTORS[schedule](step, progress)
        assert learning_rate(config, step, progress) == pytest.approx(expected)


@pytest.mark.parametrize("schedule", FACTORS)
def test_the_rate_rises_over_the_warm_up_and_never_after(schedule: str) -> None:
    config = TrainConfig.model_validate({"schedule": schedule, "warmup": 10, "learning_rate": 1.0})
    rates = [learning_rate(config, step, step / 200) for step in range(1, 201)]
    assert rates[:9] == pytest.approx([step / 10 for step in range(1, 10)])
    assert all(after <= before for before, after in pairwise(rates[9:]))
    assert max(rates) <= 1.0


@pytest.mark.parametrize("schedule", FACTORS)
def test_without_warm_up_the_first_rate_is_the_full_one(schedule: str) -> None:
    config = TrainConfig.model_validate({"schedule": schedule, "warmup": 0, "learning_rate": 0.5})
    assert learning_rate(config, 1, 0.0) == pytest.approx(0.5)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_the_rate_ends_at_zero_and_never_below(schedule: str) -> None:
    config = TrainConfig.model_validate({"schedule": schedule, "warmup": 0})
    for progress in (1.0, 1.7):
        assert learning_rate(config, 50, progress) == pytest.approx(0.0, abs=1e-12)
