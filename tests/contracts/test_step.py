"""Contract of every architecture for search: `start`, `step` and `select_rows`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.testing import assert_close

from seqloom.nn.kv_cache import KVCache
from seqloom.types import BOS, PAD, Batch, Step, Tree, select_rows

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}


@pytest.fixture
def model(step_case: Any) -> Any:
    return step_case.build()


@pytest.fixture
def batch(step_case: Any) -> Batch:
    made: Batch = step_case.batch()
    return made


@pytest.fixture
def exact(step_case: Any) -> dict[str, float]:
    """Return tolerances that allow only for rounding."""
    return {"rtol": 0.0, "atol": step_case.tolerance}


def _tensors(tree: Tree) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, KVCache):
        yield from (tree.keys, tree.values)
    elif tree is not None:
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from _tensors(part)


def _run(model: Any, batch: Batch, prefixes: Tensor) -> list[Step]:
    """Run all steps over the prefixes (R, T), with R a multiple of the number of sentences."""
    memory, state = model.start(batch)
    rows = torch.arange(len(batch.source)).repeat_interleave(len(prefixes) // len(batch.source))
    state, steps = select_rows(state, rows), []
    for last in prefixes.unbind(dim=1):
        steps.append(model.step(memory, state, last))
        state = steps[-1].state
    return steps


def _prefixes(rows: int, length: int, vocabulary: int) -> Tensor:
    """Return random targets (rows, length)."""
    prefixes = torch.randint(3, vocabulary, (rows, length), generator=torch.Generator().manual_seed(rows))
    prefixes[:, 0] = BOS
    return prefixes


def _padded(batch: Batch, columns: int) -> Batch:
    """Return the batch with additional padding after the sources."""
    assert batch.source_heads is not None
    return replace(
        batch,
        source=pad(batch.source, (0, 0) * (batch.source.dim() - 2) + (0, columns), value=PAD),
        source_heads=pad(batch.source_heads, (0, columns)),
    )


def _forced(model: Any, batch: Batch, prefixes: Tensor) -> Tensor:
    """Return the log-probabilities under teacher forcing for the same rows, (R, T, V)."""
    assert batch.source_heads is not None
    rows = torch.arange(len(batch.source)).repeat_interleave(len(prefixes) // len(batch.source))
    wide = Batch(
        source=batch.source[rows],
        source_lengths=batch.source_lengths[rows],
        index=rows,
        target_in=prefixes,
        target_lengths=torch.full((len(rows),), prefixes.shape[1]),
        source_heads=batch.source_heads[rows],
    )
    logits: Tensor = model(wide)
    return logits.log_softmax(-1)


@pytest.mark.parametrize("hypotheses", [1, 3])
def test_step_equals_forward_at_every_position(case: Any, hypotheses: int) -> None:
    model, batch = case.build(), case.batch()
    prefixes = _prefixes(4 * hypotheses, 6, case.vocabularies.target)
    stepped = torch.stack([step.log_probs for step in _run(model, batch, prefixes)], dim=1)
    assert_close(stepped, _forced(model, batch, prefixes), **EXACT)


def test_step_equals_forward_in_single_precision(case: Any) -> None:
    model, batch = case.build().float(), case.batch()
    prefixes = _prefixes(8, 6, case.vocabularies.target)
    stepped = torch.stack([step.log_probs for step in _run(model, batch, prefixes)], dim=1)
    assert_close(stepped, _forced(model, batch, prefixes), rtol=0.0, atol=1e-5)


def test_a_step_gives_log_probabilities(
    step_case: Any, model: Any, batch: Batch, exact: dict[str, float]
) -> None:
    for step in _run(model, batch, _prefixes(8, 3, step_case.vocabularies.target)):
        assert step.log_probs.shape == (8, step_case.vocabularies.target)
        assert_close(step.log_probs.double().exp().sum(-1), torch.ones(8, dtype=torch.float64), **exact)


def test_the_state_has_rows_first(step_case: Any, model: Any, batch: Batch) -> None:
    memory, _ = model.start(batch)
    assert all(len(tensor) == 4 for tensor in _tensors(memory))
    for step in _run(model, batch, _prefixes(12, 2, step_case.vocabularies.target)):
        assert all(len(tensor) == 12 for tensor in _tensors(step.state))


def test_selecting_rows_commutes_with_a_step(
    step_case: Any, model: Any, batch: Batch, exact: dict[str, float]
) -> None:
    prefixes = _prefixes(12, 3, step_case.vocabularies.target)
    memory, _ = model.start(batch)
    state = _run(model, batch, prefixes[:, :2])[-1].state
    last = prefixes[:, 2]
    # Within the three rows of each sentence, one is repeated, one dropped, two swapped.
    rows = torch.tensor([2, 0, 0, 4, 3, 5, 8, 8, 8, 9, 11, 10])
    after = model.step(memory, state, last)
    before = model.step(memory, select_rows(state, rows), last[rows])
    assert_close(before.log_probs, after.log_probs[rows], **exact)
    for one, other in zip(_tensors(before.state), _tensors(select_rows(after.state, rows)), strict=True):
        assert_close(one, other, **exact)


def test_dropping_sentences_does_not_change_the_others(
    step_case: Any, model: Any, batch: Batch, exact: dict[str, float]
) -> None:
    prefixes = _prefixes(8, 3, step_case.vocabularies.target)
    memory, _ = model.start(batch)
    state = _run(model, batch, prefixes[:, :2])[-1].state
    sentences, rows = torch.tensor([3, 1]), torch.tensor([6, 7, 2, 3])
    whole = model.step(memory, state, prefixes[:, 2])
    left = model.step(select_rows(memory, sentences), select_rows(state, rows), prefixes[rows, 2])
    assert_close(left.log_probs, whole.log_probs[rows], **exact)


def test_a_step_does_not_change_state_and_memory(step_case: Any, model: Any, batch: Batch) -> None:
    prefixes = _prefixes(8, 3, step_case.vocabularies.target)
    memory, _ = model.start(batch)
    state = _run(model, batch, prefixes[:, :2])[-1].state
    before = [tensor.clone() for tensor in _tensors((memory, state))]
    first = model.step(memory, state, prefixes[:, 2])
    for tensor, kept in zip(_tensors((memory, state)), before, strict=True):
        assert torch.equal(tensor, kept)
    assert torch.equal(model.step(memory, state, prefixes[:, 2]).log_probs, first.log_probs)


def test_two_steps_from_one_state_are_independent(
    step_case: Any, model: Any, batch: Batch, exact: dict[str, float]
) -> None:
    """Branches of a search must not see what the other one writes."""
    prefixes, others = (_prefixes(rows, 8, step_case.vocabularies.target)[:4] for rows in (4, 8))
    others[:, :2] = prefixes[:, :2]
    memory, _ = model.start(batch)
    states = [_run(model, batch, prefixes[:, :2])[-1].state] * 2
    for position in range(2, 8):
        steps = []
        for branch, tokens in enumerate((prefixes, others)):
            steps.append(model.step(memory, states[branch], tokens[:, position]))
            states[branch] = steps[branch].state
    for step, tokens in zip(steps, (prefixes, others), strict=True):
        assert_close(step.log_probs, _run(model, batch, tokens)[-1].log_probs, **exact)


def test_source_padding_does_not_change_a_step(
    step_case: Any, model: Any, batch: Batch, exact: dict[str, float]
) -> None:
    prefixes = _prefixes(8, 4, step_case.vocabularies.target)
    wider = _padded(batch, 4)
    for one, other in zip(_run(model, batch, prefixes), _run(model, wider, prefixes), strict=True):
        assert_close(other.log_probs, one.log_probs, **exact)


def test_attention_is_a_distribution_over_real_source_positions(
    step_case: Any, model: Any, batch: Batch, exact: dict[str, float]
) -> None:
    wider = _padded(batch, 2)
    real = wider.source_mask.repeat_interleave(2, dim=0)
    for step in _run(model, wider, _prefixes(8, 3, step_case.vocabularies.target)):
        if step_case.attention != "optional":
            assert (step.attention is None) == (step_case.attention == "none")
        if step.attention is None:
            continue
        rows, layers, heads, width = step.attention.shape
        assert (rows, width) == real.shape and layers >= 1 and heads >= 1
        assert (step.attention >= 0).all()
        assert (step.attention.movedim(-1, 1)[~real] == 0).all()
        total = step.attention.sum(-1)
        if step_case.attention in ("smaller", "partial"):
            assert ((total >= 0) & (total < 1 + 1e-10)).all() and (total < 0.99).any()
            assert step_case.attention == "partial" or (total > 0).all()
        else:
            assert_close(total, torch.ones_like(total), **exact)
