from __future__ import annotations

from typing import Any

import pytest

from seqloom.training.config import TrainConfig


@pytest.mark.parametrize(
    "values, words",
    [
        ({"best_by": "bleu"}, r"train\.best_by=bleu is not computed"),
        ({"average": 5}, r"train\.average=5 is more than the kept checkpoints"),
        ({"schedule": "exponential"}, "schedule"),
        ({"warmup": -1}, "warmup"),
        ({"learning_rate": 0}, "learning_rate"),
    ],
)
def test_options_that_do_not_fit_are_errors(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TrainConfig.model_validate(values)


def test_a_run_without_a_limit_gets_one() -> None:
    assert TrainConfig().max_epochs == 30
    assert TrainConfig(max_steps=5).max_epochs is None
    assert TrainConfig.model_validate(TrainConfig(max_minutes=2).model_dump()).max_epochs is None
