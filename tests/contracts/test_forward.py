"""Contract of every architecture under teacher forcing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.testing import assert_close

from seqloom.types import PAD, Batch

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}


def _alone(batch: Batch, row: int) -> Batch:
    """Return a batch of that row only, without padding."""
    assert batch.target_in is not None and batch.target_out is not None and batch.target_lengths is not None
    assert batch.source_heads is not None
    source, target = int(batch.source_lengths[row]), int(batch.target_lengths[row])
    one = slice(row, row + 1)
    return Batch(
        source=batch.source[one, :source],
        source_lengths=batch.source_lengths[one],
        index=batch.index[one],
        target_in=batch.target_in[one, :target],
        target_out=batch.target_out[one, :target],
        target_lengths=batch.target_lengths[one],
        target_tokens=target,
        source_heads=batch.source_heads[one, :source],
    )


def _wider(source: Tensor, columns: int) -> Tensor:
    """Return the source, ids or frames, with additional padding."""
    return pad(source, (0, 0) * (source.dim() - 2) + (0, columns), value=PAD)


def test_the_logits_have_one_row_per_target_position(case: Any, model: Any, batch: Batch) -> None:
    assert batch.target_in is not None
    logits = model(batch)
    assert logits.shape == (*batch.target_in.shape, case.vocabularies.target)
    assert logits.isfinite().all()


def test_padding_does_not_change_the_output(model: Any, batch: Batch) -> None:
    assert batch.target_in is not None and batch.target_out is not None and batch.source_heads is not None
    wider = replace(
        batch,
        source=_wider(batch.source, 3),
        source_heads=pad(batch.source_heads, (0, 3)),
        target_in=pad(batch.target_in, (0, 2), value=PAD),
        target_out=pad(batch.target_out, (0, 2), value=PAD),
    )
    real = batch.target_mask
    assert_close(model(wider)[:, : real.shape[1]][real], model(batch)[real], **EXACT)


def test_values_at_padding_do_not_change_the_output(model: Any, batch: Batch) -> None:
    assert batch.source_heads is not None
    padding, source = ~batch.source_mask, batch.source.clone()
    source[padding] = 5
    other = replace(
        batch,
        source=source,
        source_heads=batch.source_heads[:, : padding.shape[1]].masked_fill(padding, 1),
    )
    real = batch.target_mask
    assert_close(model(other)[real], model(batch)[real], **EXACT)


def test_future_tokens_do_not_change_the_output(case: Any, model: Any, batch: Batch) -> None:
    assert batch.target_in is not None
    logits = model(batch)
    width = batch.target_in.shape[1]
    for t in range(width - 1):
        changed = batch.target_in.clone()
        changed[:, t + 1 :] = (changed[:, t + 1 :] + 7) % case.vocabularies.target
        other = model(replace(batch, target_in=changed, target_lengths=torch.full((4,), width)))
        assert_close(other[:, : t + 1], logits[:, : t + 1], **EXACT)
        assert torch.allclose(other[:, t + 1], logits[:, t + 1]) != case.reads_targets


def test_rows_of_a_batch_are_independent(model: Any, batch: Batch) -> None:
    logits = model(batch)
    for row in range(len(batch.source)):
        alone = _alone(batch, row)
        assert_close(model(alone)[0], logits[row, : alone.target_tokens], **EXACT)


def test_the_output_depends_on_every_source_token(case: Any, model: Any, batch: Batch) -> None:
    logits = model(batch)
    for position in range(batch.source.shape[1]):
        source = batch.source.clone()
        source[:, position] = (source[:, position] + 5) % case.vocabularies.source
        changed = (model(replace(batch, source=source)) - logits).abs().amax(dim=(1, 2)) > 1e-9
        assert torch.equal(changed, batch.source_mask[:, position])
