"""Every architecture can be trained, saved and taken up again."""

from __future__ import annotations

from typing import Any

import torch

from seqloom.data.batching import collate_ids
from seqloom.decode.plan import Plan
from seqloom.decode.search import beam_search
from seqloom.training.config import TrainConfig
from seqloom.training.loss import batch_loss
from seqloom.training.optimizer import Updater

# Two pairs begin alike, two sources are permutations of one another, and lengths differ on both sides.
SOURCES = [[4, 5, 6], [6, 5, 4], [7], [7, 8], [9, 9, 9, 9], [10, 4], [11, 12, 13, 14, 15], [16]]
TARGETS = [[8, 9], [9, 8, 8], [10, 11, 12, 13], [10, 11, 4], [5], [6, 6, 6], [17, 16], []]
HEADS = [[0] + [1] * (len(source) - 1) for source in SOURCES]


def test_it_overfits_eight_pairs(default_case: Any) -> None:
    model = default_case.build(dropout=0.0).float().train()
    config = TrainConfig(learning_rate=3e-3)
    updater = Updater(model, config)
    sources = default_case.sources(SOURCES)
    batch = collate_ids(sources, TARGETS, range(8), HEADS)
    mean = torch.inf
    for step in range(1, 301):
        loss = batch_loss(model, batch, 0.0, "float32")
        loss.total.backward()  # type: ignore[no-untyped-call]
        mean = loss.nll.item() / batch.target_tokens
        if mean < 0.01:
            break
        updater.update(batch.target_tokens, config.learning_rate * min(1.0, step / 20))
    assert mean < 0.01
    plan = Plan(3, stop="ahead")  # with `count`, three short hypotheses end the search
    found = beam_search(model.eval(), collate_ids(sources, None, range(8), HEADS), plan, max_lengths=[9] * 8)
    assert [hypotheses[0].tokens for hypotheses in found] == TARGETS
