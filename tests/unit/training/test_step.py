from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.distributed.process_group import ProcessGroup
from seqloom.errors import SeqloomError
from seqloom.nn.dropout import Dropout
from seqloom.training.step import is_out_of_memory, retry_on_oom, split, too_large
from seqloom.types import Batch

Make = Callable[..., Any]  # builds a Trainer of the toy model


def batch() -> Batch:
    """Five rows of different lengths."""
    return collate_ids([[4], [5, 6], [7], [8], [9]], [[6, 7], [8], [], [9, 10, 11], [4]], range(5))


def too_much() -> Tensor:
    """Provoke the error that torch raises when the host is out of memory."""
    return torch.empty(1 << 60)


@pytest.mark.parametrize("parts, rows", [(1, [5]), (2, [3, 2]), (4, [2, 2, 1]), (5, [1] * 5), (8, [1] * 5)])
def test_the_parts_are_the_batch(parts: int, rows: list[int]) -> None:
    whole = batch()
    found = list(split(whole, parts))
    assert [len(part.source) for part in found] == rows
    assert sum(part.target_tokens for part in found) == whole.target_tokens
    assert torch.equal(torch.cat([part.index for part in found]), whole.index)
    assert whole.target_out is not None
    for part, kept in zip(found, whole.target_out.split(rows), strict=True):
        assert part.target_out is not None
        assert torch.equal(part.target_out, kept)


def test_what_is_out_of_memory() -> None:
    with pytest.raises(RuntimeError) as caught:
        too_much()
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_the_first_number_of_parts_that_fits_is_used_with_the_same_random_numbers() -> None:
    tried, forgotten = [], []
    torch.manual_seed(3)
    for attempt in retry_on_oom(5, lambda: forgotten.append(1)):
        with attempt:
            tried.append((attempt.parts, torch.rand(2).tolist()))
            if attempt.parts < 4:
                too_much()
    assert not attempt.failed
    assert tried == [(parts, tried[0][1]) for parts in (1, 2, 4)]
    assert len(forgotten) == 2


def test_single_rows_are_the_last_attempt_and_other_errors_propagate() -> None:
    tried: list[int] = []
    for attempt in retry_on_oom(5, lambda: None):
        with attempt:
            tried.append(attempt.parts)
            too_much()
    assert attempt.failed
    assert tried == [1, 2, 4, 5]
    attempts = retry_on_oom(5, lambda: None)
    with pytest.raises(RuntimeError, match="a mistake"), next(attempts):
        raise RuntimeError("a mistake")


def small_memory(trainer: Any, rows: int, *, when: Callable[[int], bool] = lambda step: True) -> None:
    """Make the model run out of memory during the backward pass of more than this many rows."""
    hidden = trainer.model.hidden

    def limited(given: Batch) -> Tensor:
        out: Tensor = hidden(given)
        if len(given.source) > rows and when(trainer.state.step):
            out.register_hook(lambda gradient: too_much())  # the output layer's gradient is added by then
        return out

    trainer.model.hidden = limited


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"rdrop": 2.0}])
def test_split_batches_give_the_gradient_of_the_entire_batch(
    make_trainer: Make, options: dict[str, Any], messages: list[str]
) -> None:
    def gradients(name: str, rows: int | None) -> Any:
        trainer = make_trainer(name, max_steps=3, log_every=3, **options)
        trainer.model.dropout = Dropout(0.0)  # its random numbers are drawn in other portions
        if rows is not None:
            small_memory(trainer, rows)
        seen, update = [], trainer.updater.update

        def watch(count: int, rate: float) -> Any:
            seen.append([weight.grad.clone() for weight in trainer.updater.weights.values()])
            return update(count, rate)

        trainer.updater.update = watch
        trainer.run()
        return trainer, seen

    passes = 2 if "rdrop" in options else 1
    whole, cut = gradients("whole", None), gradients("cut", passes)
    assert len(whole[1]) == 3
    for one, other in zip(whole[1], cut[1], strict=True):
        for left, right in zip(one, other, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-6)
    assert (whole[0].state.split, cut[0].state.split) == (0, 3)
    ((_, _, values),) = [one for one in cut[0].log.records if one[0] == "train"]
    assert values["split"] == 3
    assert len(messages) == 1
    assert "batch" in messages[0] and "train.batch_tokens" in messages[0]


@pytest.mark.parametrize("rdrop", [0.0, 2.0])
def test_a_run_that_ran_out_of_memory_is_resumed_exactly(make_trainer: Make, rdrop: float) -> None:
    def build(name: str) -> Any:
        trainer = make_trainer(name, max_steps=8, rdrop=rdrop)
        small_memory(trainer, 2, when=lambda step: step in (3, 6))
        return trainer

    whole = build("whole")
    whole.run()
    first = build("parts")
    first.stop = lambda: first.state.step >= 5
    first.run()
    resumed = build("parts")
    assert resumed.run().split == whole.state.split > 0
    for left, right in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(left, right)


def test_a_row_that_does_not_fit_is_an_error(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=4)
    small_memory(trainer, 0)
    with pytest.raises(SeqloomError, match="for a single line of the batch at step 1, ") as caught:
        trainer.run()
    assert "lower data.max_length or train.batch_tokens" in caught.value.hint


def test_a_process_of_a_group_that_runs_out_of_memory_is_an_error() -> None:
    error = too_large([batch()], 1234, 4096, ProcessGroup(rank=1, size=2))
    assert error.message == (
        "Not enough memory for the part of process 1 of the batch at step 1,234, 3 source tokens wide."
    )
