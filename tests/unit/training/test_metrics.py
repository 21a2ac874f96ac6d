from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from seqloom.errors import SeqloomError

Make = Callable[..., Any]  # builds a Trainer of the toy model


def injected(trainer: Any, where: set[int], value: float) -> None:
    """Multiply the loss of these updates by the value."""
    forward, calls = trainer.loss_module.forward, count(1)

    def spoiled(batch: Any) -> Any:
        loss = forward(batch)
        factor = value if next(calls) in where else 1.0
        return loss._replace(total=loss.total * factor, nll=loss.nll * factor)

    trainer.loss_module.forward = spoiled


def lines(trainer: Any) -> list[dict[str, Any]]:
    return [values for kind, _, values in trainer.log.records if kind == "train"]


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_nan_batch_is_skipped_and_reported(make_trainer: Make, poison: float, messages: list[str]) -> None:
    trainer, clean = (make_trainer(name, max_steps=10, log_every=5) for name in ("spoiled", "clean"))
    injected(trainer, {7}, poison)
    assert trainer.run().skipped == 1
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())
    assert [line["skipped"] for line in lines(trainer)] == [0, 1]
    assert all(math.isfinite(line["loss"]) and math.isfinite(line["gradient_norm"]) for line in lines(trainer))
    assert messages == [
        "skipped 1 of the 5 updates up to step 10: the gradient was not finite (NaN or infinity)"
    ]
    messages.clear()
    clean.run()
    assert messages == []


def test_the_loss_of_skipped_updates_only_is_nan(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=4, log_every=2, max_nonfinite=3)
    injected(trainer, {1, 2}, math.nan)
    trainer.run()
    first, second = lines(trainer)
    assert math.isnan(first["loss"]) and math.isnan(first["gradient_norm"])
    assert math.isfinite(second["loss"])


@pytest.mark.parametrize("log_every", [1, 5, 40])
def test_a_spike_is_clipped_and_reported(make_trainer: Make, log_every: int, messages: list[str]) -> None:
    trainer = make_trainer(max_steps=40, log_every=log_every, clip=1.0)
    injected(trainer, {30, 33}, 1e6)
    before: dict[int, Any] = {}
    update = trainer.updater.update

    def watch(rows: int, rate: float) -> Any:
        kept = [weight.detach().clone() for weight in trainer.updater.weights.values()]
        done = update(rows, rate)
        moved = max(
            (weight - old).abs().max().item()
            for weight, old in zip(trainer.updater.weights.values(), kept, strict=True)
        )
        before[trainer.state.step] = (moved, rate)
        return done

    trainer.updater.update = watch
    trainer.run()
    assert sum(line["spikes"] for line in lines(trainer)) == 2
    said = " ".join(messages)
    assert "spike at step 30" in said or "spike at step 33" in said
    assert (", and 1 more" in said) == (log_every == 40)
    moved, rate = before[30]
    assert moved < 10 * rate  # Adam and clipping keep the weights from jumping


def test_an_ordinary_run_has_no_spikes(make_trainer: Make, messages: list[str]) -> None:
    trainer = make_trainer(max_steps=60, log_every=20)
    trainer.run()
    assert [line["spikes"] for line in lines(trainer)] == [0, 0, 0]
    assert messages == []


def test_spikes_are_reported_only_after_enough_updates(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=12, log_every=4)
    injected(trainer, {6}, 1e6)
    trainer.run()
    assert [line["spikes"] for line in lines(trainer)] == [0, 0, 0]


def test_exploding_gradients_are_skipped(make_trainer: Make) -> None:
    """The square of such a gradient overflows, so its norm is not finite."""
    trainer = make_trainer(max_steps=6, log_every=6)
    injected(trainer, {3}, 1e30)
    assert trainer.run().skipped == 1
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())


TIMED = {"seconds", "tokens_per_second", "memory_mb"}


@pytest.mark.parametrize("options", [{}, {"accumulate": 2, "max_nonfinite": 4}])
@pytest.mark.parametrize("cut", [1, 23, 28, 30, 31])
def test_a_resumed_run_writes_the_reports_of_an_uninterrupted_run(
    make_trainer: Make, cut: int, options: dict[str, Any], messages: list[str]
) -> None:
    options = {"max_steps": 40, "log_every": 7, "clip": 0.5, **options}
    spoiled = {22: math.nan, 27: math.nan, 29: 1e4}  # update → factor of its loss

    def spoil(trainer: Any) -> Any:
        forward = trainer.loss_module.forward

        def learn(batch: Any) -> Any:
            loss, factor = forward(batch), spoiled.get(trainer.state.step, 1.0)
            return loss._replace(total=loss.total * factor, nll=loss.nll * factor)

        trainer.loss_module.forward = learn
        return trainer

    whole = spoil(make_trainer("whole", **options))
    whole.run()
    reported = messages.copy()
    messages.clear()
    first = spoil(make_trainer("parts", **options))
    first.stop = lambda: first.state.step >= cut
    first.run()
    second = spoil(make_trainer("parts", **options))
    second.run()
    assert [_values(line) for line in (*first.log.records, *second.log.records)] == [
        _values(line) for line in whole.log.records
    ]
    assert messages == reported
    assert (second.state.skipped, len(reported)) == (2, 2)


def _values(record: tuple[str, int, dict[str, Any]]) -> tuple[str, int, dict[str, Any]]:
    kind, step, values = record
    return kind, step, {name: value for name, value in values.items() if name not in TIMED}


def test_a_resumed_run_continues_to_count_consecutive_skipped_updates(make_trainer: Make) -> None:
    options = {"max_steps": 20, "checkpoint_every": 2, "log_every": 2, "max_nonfinite": 6}
    first = make_trainer(**options)
    injected(first, set(range(1, 100)), math.nan)
    first.stop = lambda: first.state.step >= 4
    first.run()
    second = make_trainer(**options)
    injected(second, set(range(1, 100)), math.nan)
    with pytest.raises(SeqloomError, match="stopped at step 6: the last 6 gradients"):
        second.run()
