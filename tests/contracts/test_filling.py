"""Contract of every architecture that fills gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import pad
from torch.testing import assert_close

from seqloom.training.loss import LossModule
from seqloom.types import PAD, Batch
from support.overfitting import overfit

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}

# A masked token can be predicted only from both sides and from the order: texts share beginnings and ends.
TEXTS = [[4, 5, 6, 7], [4, 8, 6, 7], [7, 6, 5, 4], [7, 6, 8, 4], [9, 10, 11], [9, 12], [13, 13, 14, 13], [15]]
PLACES = [(0, 3), (3,), (3,), (0,), (1,), (1,), (2,), (0,)]


@pytest.fixture
def model(fill_case: Any) -> Any:
    return fill_case.build()


@pytest.fixture
def batch(fill_case: Any) -> Batch:
    made: Batch = fill_case.batch()
    return made


def test_the_logits_have_one_row_per_position_of_the_text(fill_case: Any, model: Any, batch: Batch) -> None:
    logits = model(batch)
    assert logits.shape == (*batch.source.shape, fill_case.vocabularies.source)
    assert logits.isfinite().all()


def test_padding_does_not_change_the_output(model: Any, batch: Batch) -> None:
    wider = replace(batch, source=pad(batch.source, (0, 3), value=PAD))
    real = batch.source_mask
    assert_close(model(wider)[:, : real.shape[1]][real], model(batch)[real], **EXACT)


def test_values_at_padding_do_not_change_the_output(model: Any, batch: Batch) -> None:
    other = replace(batch, source=batch.source.masked_fill(~batch.source_mask, 5))
    real = batch.source_mask
    assert_close(model(other)[real], model(batch)[real], **EXACT)


def test_rows_of_a_batch_are_independent(model: Any, batch: Batch) -> None:
    logits = model(batch)
    for row, length in enumerate(batch.source_lengths.tolist()):
        one = slice(row, row + 1)
        alone = Batch(batch.source[one, :length], batch.source_lengths[one], batch.index[one])
        assert_close(model(alone)[0], logits[row, :length], **EXACT)


def test_every_position_depends_on_all_real_ones_on_both_sides(
    fill_case: Any, model: Any, batch: Batch
) -> None:
    logits, real = model(batch), batch.source_mask
    for position in range(batch.source.shape[1]):
        source = batch.source.clone()
        source[:, position] = (source[:, position] + 5) % fill_case.vocabularies.source
        changed = (model(replace(batch, source=source)) - logits).abs().amax(dim=-1) > 1e-9  # (B, S)
        assert torch.equal(changed[real], real[:, position : position + 1].expand_as(real)[real])


def test_only_masked_tokens_contribute_to_the_loss(model: Any, batch: Batch) -> None:
    assert batch.target_out is not None
    log_probs, hidden = model(batch).log_softmax(-1), batch.target_out != PAD
    expected = -log_probs[hidden].gather(1, batch.target_out[hidden].unsqueeze(1)).sum()
    assert_close(LossModule(model, 0.0, "float32")(batch).nll, expected, **EXACT)


def test_it_overfits_eight_texts_and_fills_them_correctly(
    fill_case: Any, hidden_in: Callable[..., Batch]
) -> None:
    model = fill_case.build(**fill_case.known(dropout=0.0)).float().train()
    batch = hidden_in(TEXTS, PLACES)
    assert batch.target_out is not None
    overfit(model, batch)
    hidden = batch.target_out != PAD
    filled = batch.source.where(~hidden, model.eval()(batch).argmax(-1))
    rows = [row[:length].tolist() for row, length in zip(filled, map(len, TEXTS), strict=True)]
    assert rows == TEXTS
