"""Training on one batch until its targets are nearly certain."""

from __future__ import annotations

import torch

from seqloom.models.base import SequenceModel
from seqloom.training.config import TrainConfig
from seqloom.training.loss import LossModule
from seqloom.training.optimizer import Updater
from seqloom.types import Batch


def overfit(model: SequenceModel, batch: Batch) -> None:
    """Train until the mean loss per token is below 0.01; fail if 300 updates are not enough."""
    config = TrainConfig(learning_rate=3e-3)
    updater, mean = Updater(model, config), torch.inf
    for step in range(1, 301):
        loss = LossModule(model, 0.0, "float32")(batch)
        loss.total.backward()
        mean = loss.nll.item() / batch.target_tokens
        if mean < 0.01:
            break
        updater.update(batch.target_tokens, config.learning_rate * min(1.0, step / 20))
    assert mean < 0.01
