"""Contract of every architecture whose targets are vectors or distributions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import pad
from torch.testing import assert_close

from seqloom.data.batching import collate_ids
from seqloom.training.config import TrainConfig
from seqloom.training.loss import LossModule
from seqloom.training.optimizer import Updater
from seqloom.types import Batch, select_rows

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}
SOURCES = [[4, 5, 6], [6, 5, 4], [7], [7, 8], [9, 9, 9, 9], [10, 4], [5, 6, 4, 3, 8], [8]]


@pytest.fixture
def model(vector_case: Any) -> Any:
    return vector_case.build()


@pytest.fixture
def batch(vector_case: Any) -> Batch:
    made: Batch = vector_case.batch()
    return replace(made, target_in=made.target_in.double())  # type: ignore[union-attr]


def test_there_is_one_output_per_position_and_a_logit_of_the_end(
    vector_case: Any, model: Any, batch: Batch
) -> None:
    assert batch.target_in is not None
    outputs = model(batch)
    assert outputs.shape == (*batch.target_in.shape[:2], vector_case.vocabularies.target + 1)
    assert outputs.isfinite().all()


def test_padding_does_not_change_the_output(model: Any, batch: Batch) -> None:
    assert batch.target_in is not None and batch.target_out is not None
    wider = replace(
        batch,
        source=pad(batch.source, (0, 0) * (batch.source.dim() - 2) + (0, 3)),
        target_in=pad(batch.target_in, (0, 0, 0, 2), value=9.0),
        target_out=pad(batch.target_out, (0, 0, 0, 2), value=9.0),
    )
    real = batch.target_mask
    assert_close(model(wider)[:, : real.shape[1]][real], model(batch)[real], **EXACT)
    losses = [LossModule(model, 0.0, "float32")(one).total for one in (wider, batch)]
    assert_close(*losses, **EXACT)


def test_rows_of_a_batch_are_independent(model: Any, batch: Batch) -> None:
    whole = LossModule(model, 0.0, "float32")(batch).total
    parts = []
    for row in range(4):
        one = batch.rows(slice(row, row + 1))
        source, target = int(one.source_lengths[0]), int(one.target_lengths[0])  # type: ignore[index]
        cut = replace(
            one,
            source=one.source[:, :source],
            target_in=one.target_in[:, :target],  # type: ignore[index]
            target_out=one.target_out[:, :target],  # type: ignore[index]
        )
        assert cut.target_tokens == target
        parts.append(LossModule(model, 0.0, "float32")(cut).total)
    assert_close(sum(parts), whole, **EXACT)


def test_future_vectors_do_not_change_the_output(model: Any, batch: Batch) -> None:
    assert batch.target_in is not None
    outputs, width = model(batch), batch.target_in.shape[1]
    for t in range(width - 1):
        changed = batch.target_in.clone()
        changed[:, t + 1 :] += 1.0
        other = model(replace(batch, target_in=changed, target_lengths=torch.full((4,), width)))
        assert_close(other[:, : t + 1], outputs[:, : t + 1], **EXACT)
        assert not torch.allclose(other[:, t + 1], outputs[:, t + 1])


def test_a_step_equals_forward_at_every_position(vector_case: Any, model: Any, batch: Batch) -> None:
    assert batch.target_in is not None
    forced = model(replace(batch, target_lengths=torch.full((4,), batch.target_in.shape[1])))
    memory, state = model.start(batch)
    state = select_rows(state, torch.arange(4))
    for t, last in enumerate(batch.target_in.unbind(dim=1)):
        vectors, end, state = model.next_vector(memory, state, last)
        expected = forced[:, t, :-1]
        if vector_case.vocabularies.outputs == "distributions":
            expected = expected.softmax(-1)
            assert_close(vectors.sum(-1), torch.ones(4, dtype=torch.float64))
        assert_close(vectors, expected, **EXACT)
        assert_close(end, forced[:, t, -1].sigmoid(), **EXACT)


def test_it_overfits_eight_pairs(vector_case: Any) -> None:
    model = vector_case.build(**vector_case.known(dropout=0.0)).float().train()
    random = torch.Generator().manual_seed(1)
    size, is_distribution = vector_case.vocabularies.target, model.distributions
    targets = [torch.randn(1 + number % 3, size, generator=random) for number in range(8)]
    targets = [(4 * target).softmax(-1) if is_distribution else target for target in targets]
    heads = [[0] * len(source) for source in SOURCES]
    batch = collate_ids(vector_case.sources(SOURCES), [one.numpy() for one in targets], range(8), heads)
    floor = -sum(float((one * one.log()).sum()) for one in targets) if is_distribution else 0.0
    config = TrainConfig(learning_rate=3e-3)
    updater = Updater(model, config)
    for step in range(1, 301):
        loss = LossModule(model, 0.0, "float32")(batch)
        loss.total.backward()
        if (loss.total.item() - floor) / batch.target_tokens < 0.02:
            return
        updater.update(batch.target_tokens, config.learning_rate * min(1.0, step / 20))
    raise AssertionError(f"the loss is {loss.total.item()}, and its minimum {floor}")
