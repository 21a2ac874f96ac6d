"""Every architecture can be trained, saved and taken up again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from seqloom.data.batching import collate_ids
from seqloom.decode.plan import Plan
from seqloom.decode.search import beam_search
from seqloom.training.checkpoint import load_weights, weights_of
from seqloom.training.config import TrainConfig
from seqloom.training.loss import batch_loss
from seqloom.training.optimizer import Updater
from seqloom.types import Batch

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
    found = beam_search(model.eval(), collate_ids(sources, None, range(8), HEADS), Plan(3), max_lengths=[9] * 8)
    assert [hypotheses[0].tokens for hypotheses in found] == TARGETS


def test_the_gradient_reaches_every_parameter(case: Any, batch: Batch) -> None:
    model = case.build(dropout=0.0).train()
    batch_loss(model, batch, 0.1, "float32").total.backward()  # type: ignore[no-untyped-call]
    unreached = [
        name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()
    ]
    assert unreached == []


def test_padding_gets_no_gradient(case: Any, batch: Batch) -> None:
    model = case.build(dropout=0.0, tie="none").train()
    batch_loss(model, batch, 0.1, "float32").total.backward()  # type: ignore[no-untyped-call]
    for embedding in (model.source_embedding, model.target_embedding):
        if isinstance(embedding, torch.nn.Embedding):  # of frames there is no embedding of padding
            assert not embedding.weight.grad[0].any()


def test_save_and_load_give_the_same_answers(case: Any, batch: Batch, tmp_path: Path) -> None:
    saved, loaded = case.build(seed=1), case.build(seed=2)
    assert not torch.allclose(saved(batch), loaded(batch))
    save_file(weights_of(saved), tmp_path / "model.safetensors")
    load_weights(loaded, tmp_path / "model.safetensors")
    assert torch.equal(saved(batch), loaded(batch))


def test_the_seed_alone_decides_the_first_weights(case: Any, batch: Batch) -> None:
    assert torch.equal(case.build(seed=5)(batch), case.build(seed=5)(batch))
