from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from seqloom.data.batching import collate_ids
from seqloom.errors import SeqloomError
from seqloom.training.config import TrainConfig
from seqloom.training.trainer import Action, Feed, Validation, next_action

Make = Callable[..., Any]  # builds a Trainer of the toy model


def _goals(*goals: float) -> Callable[[], Validation]:
    """Return a validation that gives these goals one after the other."""
    left = iter(goals)
    return lambda: Validation({"loss": 0.0}, next(left))


def _after(calls: int) -> Callable[[], bool]:
    """Return a function that returns False for this many calls, then True."""
    left = count()
    return lambda: next(left) >= calls


def _at_step(trainer: Any, step: int) -> None:
    trainer.stop = lambda: trainer.state.step >= step


@pytest.mark.parametrize(
    "limits, steps, reason",
    [
        ({"max_steps": 6}, 6, "reached train.max_steps=6"),
        ({"max_epochs": 2}, 10, "reached train.max_epochs=2"),
        ({"max_epochs": 2, "accumulate": 2}, 5, "reached train.max_epochs=2"),
        ({"max_epochs": 3, "max_steps": 4}, 4, "reached train.max_steps=4"),
        ({"max_epochs": 1, "max_steps": 400}, 5, "reached train.max_epochs=1"),
        ({"max_minutes": 1e-9}, 1, "reached train.max_minutes=1e-09"),
    ],
)
def test_the_first_limit_ends_the_run(
    make_trainer: Make, limits: dict[str, Any], steps: int, reason: str
) -> None:
    trainer = make_trainer(**limits)
    state = trainer.run()
    assert (state.step, state.finished) == (steps, reason)
    assert trainer.log.fractions == sorted(trainer.log.fractions)
    assert trainer.log.fractions[-1] == 1.0
    assert trainer.checkpoints.steps()[-1] == steps


def test_training_lowers_the_loss(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=120, learning_rate=0.05, schedule="constant", feed=_same_batch)
    trainer.run()
    losses = [values["loss"] for kind, _, values in trainer.log.records if kind == "train"]
    assert losses[-1] < 0.7 * losses[0]


def _same_batch(epoch: int, used: int) -> Iterator[Feed]:
    batch = collate_ids([[4], [5]], [[6, 7], [8, 9, 10]], range(2))
    return (Feed(0, number, batch, batch.target_tokens) for number in count(used + 1))


def test_early_stopping_and_the_best_checkpoint(make_trainer: Make) -> None:
    trainer = make_trainer(
        max_steps=100, validate_every=2, checkpoint_every=2, patience=3, keep=2, validate=_goals(1, 3, 2, 3, 1)
    )
    state = trainer.run()
    assert state.finished == "loss has not improved for 3 validations"
    assert (state.step, state.best, state.best_step, state.worse) == (10, 3, 4, 3)
    folder = trainer.checkpoints.folder
    assert os.readlink(folder / "best") == "step-4"
    assert trainer.checkpoints.steps() == [4, 8, 10]  # the best one and the last two


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_validation_that_is_not_finite_never_becomes_the_best(
    make_trainer: Make, bad: float, messages: list[str]
) -> None:
    trainer = make_trainer(max_steps=12, validate=_goals(bad, -3.0, bad))
    state = trainer.run()
    assert (state.best, state.best_step, state.worse) == (-3.0, 8, 1)
    assert os.readlink(trainer.checkpoints.folder / "best") == "step-8"
    assert [line.split(" is not finite")[0] for line in messages] == [
        "validation at step 4",
        "validation at step 12",
    ]


def test_a_metric_of_a_model_whose_loss_is_nan_never_becomes_the_best(make_trainer: Make) -> None:
    results = iter([Validation({"loss": math.nan}, 90.0), Validation({"loss": 1.0}, 10.0)])
    state = make_trainer(max_steps=8, validate=lambda: next(results)).run()
    assert (state.best, state.best_step) == (10.0, 8)


@pytest.mark.parametrize("limits", [{"max_steps": 8}, {"max_steps": 99, "patience": 2}])
def test_a_run_without_a_finite_validation_is_an_error_that_keeps_the_checkpoints(
    make_trainer: Make, limits: dict[str, int]
) -> None:
    trainer = make_trainer(validate=_goals(math.nan, math.nan), average=2, **limits)
    with pytest.raises(SeqloomError, match="no validation was finite"):
        trainer.run()
    assert trainer.checkpoints.steps() == [4, 8]
    assert not (trainer.checkpoints.folder / "best").exists()
    with pytest.raises(SeqloomError, match="no validation was finite"):  # resumed
        make_trainer(validate=_goals(), **limits).run()


def test_validation_and_checkpoints_have_separate_intervals(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=10, validate_every=3, checkpoint_every=4, keep=100)
    trainer.run()
    assert trainer.log.steps("valid") == [3, 6, 9, 10]
    assert trainer.checkpoints.steps() == [3, 4, 6, 8, 9, 10]


def test_validation_sees_the_averaged_model_in_evaluation_mode(make_trainer: Make) -> None:
    seen = []

    def validate() -> Validation:
        seen.append((trainer.model.training, trainer.model.output.bias.clone()))
        return Validation({"loss": 1.0}, 1.0)

    trainer = make_trainer(max_steps=4, ema=0.9, validate=validate)
    trainer.run()
    ((training, bias),) = seen
    assert not training
    assert trainer.average is not None
    assert torch.equal(bias, trainer.average.average["output.bias"])
    assert not torch.equal(bias, trainer.average.live["output.bias"])
    served = load_file(trainer.checkpoints.path(4) / "model.safetensors")
    assert torch.equal(served["output.bias"], bias)


def test_persistent_nonfinite_gradients_are_an_error(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=1000, log_every=2, max_nonfinite=5)
    before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    with torch.no_grad():
        trainer.model.output.bias[0] = torch.nan
    with pytest.raises(
        SeqloomError, match=r"stopped at step 6: the last 6 gradients were not finite"
    ) as caught:
        trainer.run()
    assert "train.learning_rate" in caught.value.hint
    after = trainer.model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before if name != "output.bias")


def test_a_rare_nonfinite_gradient_is_counted_and_skipped(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=6, max_nonfinite=2)
    original, calls = trainer.updater.update, count(1)

    def update(rows: int, rate: float) -> Any:
        if next(calls) in (2, 4):
            next(iter(trainer.updater.weights.values())).grad.fill_(torch.inf)
        return original(rows, rate)

    trainer.updater.update = update
    state = trainer.run()
    assert (state.step, state.skipped) == (6, 2)
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())


def test_stop_saves_and_returns(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=100)
    _at_step(trainer, 3)
    state = trainer.run()
    assert (state.step, state.finished) == (3, "")
    assert trainer.checkpoints.steps() == [3]
    resumed = make_trainer(max_steps=5).run()
    assert (resumed.step, resumed.finished) == (5, "reached train.max_steps=5")


@pytest.mark.parametrize("calls", range(6))
def test_a_stop_at_any_check_saves_the_step(make_trainer: Make, calls: int) -> None:
    trainer = make_trainer(max_steps=100, checkpoint_every=2, stop=_after(calls))
    state = trainer.run()
    assert trainer.checkpoints.steps()[-1] == state.step


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accumulate": 3},
        {"ema": 0.9},
        {"accumulate": 2, "ema": 0.8, "schedule": "cosine", "weight_decay": 0.1},
        {"optimizer": "sgd"},
        {"optimizer": "sgd", "momentum": 0.9},
    ],
    ids=["plain", "accumulate", "ema", "all", "sgd", "momentum"],
)
@pytest.mark.parametrize("cut", [1, 4, 5, 9])
def test_a_resumed_run_ends_like_an_uninterrupted_run(
    make_trainer: Make, tmp_path: Path, options: dict[str, Any], cut: int
) -> None:
    options = {"max_steps": 11, "keep": 9, **options}
    whole = make_trainer("whole", **options)
    whole.run()
    first = make_trainer("parts", **options)
    _at_step(first, cut)
    first.run()
    torch.manual_seed(99)  # another process starts with another random state
    state = make_trainer("parts", **options).run()
    assert state.finished == whole.state.finished
    assert replace(state, seconds=0, reported=0) == replace(whole.state, seconds=0, reported=0)
    for step in whole.checkpoints.steps():
        if step >= cut:
            for name in ("model.safetensors", "training.safetensors"):
                files = [tmp_path / run / "checkpoints" / f"step-{step}" / name for run in ("whole", "parts")]
                assert files[0].read_bytes() == files[1].read_bytes()


def test_a_run_killed_between_checkpoints_continues_from_the_last_one(make_trainer: Make) -> None:
    whole = make_trainer("whole", max_steps=10)
    whole.run()

    def dying(epoch: int, used: int) -> Iterator[Feed]:
        for number, item in enumerate(whole.feed(epoch, used)):
            if number == 6:
                raise KeyboardInterrupt
            yield item

    with pytest.raises(KeyboardInterrupt):
        make_trainer("parts", max_steps=10, feed=dying).run()
    resumed = make_trainer("parts", max_steps=10)
    resumed.run()
    for ours, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_finished_run_is_not_trained_further(make_trainer: Make) -> None:
    make_trainer(max_steps=4).run()
    again = make_trainer(max_steps=4)
    assert again.run().finished == "reached train.max_steps=4"
    assert again.log.records == []


@pytest.mark.parametrize("better", [True, False])
def test_the_average_of_the_last_checkpoints(make_trainer: Make, better: bool) -> None:
    goals = _goals(1, 2, 3, 4 if better else 0)
    trainer = make_trainer(max_steps=12, average=3, keep=3, validate=goals)
    trainer.run()
    folder = trainer.checkpoints.folder
    parts = [load_file(folder / f"step-{step}" / "model.safetensors") for step in (4, 8, 12)]
    average = load_file(folder / "average" / "model.safetensors")
    for name, tensor in average.items():
        torch.testing.assert_close(tensor, sum(part[name] for part in parts) / 3)
    assert os.readlink(folder / "best") == ("average" if better else "step-12")
    assert trainer.log.steps("average") == [12]


def test_one_checkpoint_has_no_average(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=4, average=3)
    trainer.run()
    assert not (trainer.checkpoints.folder / "average").exists()


def test_the_report_covers_the_updates_since_the_last_one(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=5, log_every=5)
    state = trainer.run()
    ((_, _, values),) = [one for one in trainer.log.records if one[0] == "train"]
    batches = [item.data for item, _ in zip(trainer.feed(0, 0), range(5), strict=False)]
    real = sum(batch.target_tokens for batch in batches)
    padded = sum(batch.target_in.numel() for batch in batches)
    assert values["target_tokens"] == state.target_tokens == real
    assert values["padding"] == pytest.approx(1 - real / padded)
    assert 0 < values["loss"] < 5
    assert values["learning_rate"] == pytest.approx(1e-3 * (2 / 5) ** 0.5)


def _watch(trainer: Any) -> tuple[list[float], list[dict[str, float]]]:
    """Record the norms of the mean gradient of later updates, global and by layer."""
    original, wholes, layers = trainer.updater.update, [], []

    def update(rows: int, rate: float) -> Any:
        table, source, bias = (
            (weight.grad.double() / rows).square().sum().item()
            for weight in (trainer.model.table.weight, trainer.model.source.weight, trainer.model.output.bias)
        )
        layers.append({"table": table**0.5, "source": source**0.5, "output": bias**0.5})
        wholes.append((table + source + bias) ** 0.5)
        return original(rows, rate)

    trainer.updater.update = update
    return wholes, layers


def _train_lines(trainer: Any) -> list[dict[str, Any]]:
    return [values for kind, _, values in trainer.log.records if kind == "train"]


def test_the_report_has_the_share_and_the_factor_of_clipping(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=12, log_every=5, clip=1.0)
    norms, _ = _watch(trainer)
    trainer.run()
    some = []
    for line, window in zip(_train_lines(trainer), (norms[:5], norms[5:10], norms[10:]), strict=True):
        factors = [1.0 / norm for norm in window if norm > 1.0]
        assert line["clipped"] == len(factors) / len(window)
        assert line["clip_factor"] == pytest.approx(sum(factors) / len(factors) if factors else 1.0)
        some.append(0 < line["clipped"] < 1)
    assert any(some)


@pytest.mark.parametrize("clip", [0.0, 1e6])
def test_nothing_is_clipped_without_a_limit_or_below_it(make_trainer: Make, clip: float) -> None:
    trainer = make_trainer(max_steps=2, clip=clip)
    trainer.run()
    assert [(line["clipped"], line["clip_factor"]) for line in _train_lines(trainer)] == [(0.0, 1.0)] * 2


@pytest.mark.parametrize("poison", [torch.inf, torch.nan])
def test_a_skipped_update_is_not_a_clipped_one(make_trainer: Make, poison: float) -> None:
    trainer = make_trainer(max_steps=2, log_every=2, clip=1e-3)
    original, calls = trainer.updater.update, count(1)

    def update(rows: int, rate: float) -> Any:
        if next(calls) == 2:
            next(iter(trainer.updater.weights.values())).grad.fill_(poison)
        return original(rows, rate)

    trainer.updater.update = update
    trainer.run()
    (line,) = _train_lines(trainer)
    assert (line["skipped"], line["clipped"]) == (1, 0.5)
    assert 0 < line["clip_factor"] < 1
    assert not math.isfinite(line["gradient_norms"]["table"])
    assert math.isfinite(line["gradient_norms"]["source"])


@pytest.mark.parametrize(
    "options", [{}, {"accumulate": 2}, {"max_steps": None, "max_epochs": 1}, {"clip": 0.0}, {"clip": 1e-3}]
)
def test_the_norms_by_layer_are_those_of_the_last_update(make_trainer: Make, options: dict[str, Any]) -> None:
    trainer = make_trainer(**{"max_steps": 5, "log_every": 2, **options})
    wholes, layers = _watch(trainer)
    trainer.run()
    lines = _train_lines(trainer)
    assert len(lines) == 3  # after 2, 4 and, off schedule, 5 updates
    for line, number in zip(lines, (1, 3, 4), strict=True):
        assert line["gradient_norms"] == pytest.approx(layers[number], rel=1e-5)
        assert math.hypot(*line["gradient_norms"].values()) == pytest.approx(wholes[number], rel=1e-5)


def test_an_interim_checkpoint_is_not_averaged(make_trainer: Make) -> None:
    options = {"max_steps": 16, "checkpoint_every": 4, "keep": 3, "average": 3}
    undisturbed = make_trainer("undisturbed", **options)
    undisturbed.run()
    stopped = make_trainer("stopped", **options)
    stopped.stop = lambda: stopped.state.step >= 14
    stopped.run()
    assert stopped.checkpoints.steps()[-1] == 14
    resumed = make_trainer("stopped", **options)
    resumed.run()
    assert resumed.checkpoints.steps() == undisturbed.checkpoints.steps()
    averages = [t.checkpoints.folder / "average" / "model.safetensors" for t in (undisturbed, resumed)]
    assert averages[0].read_bytes() == averages[1].read_bytes()


def test_a_run_killed_before_averaging_averages_when_resumed(make_trainer: Make) -> None:
    options = {"max_steps": 12, "keep": 3, "average": 3}
    trainer = make_trainer(**options)
    trainer._average_checkpoints = lambda: None  # type: ignore[method-assign]
    trainer.run()
    assert not trainer.checkpoints.has_average()
    make_trainer(**options).run()
    assert trainer.checkpoints.has_average()


def test_a_short_run_with_nonfinite_gradients_only_is_an_error(make_trainer: Make) -> None:
    trainer = make_trainer(max_steps=2, log_every=50)
    with torch.no_grad():
        trainer.model.source.weight.fill_(float("nan"))
    with pytest.raises(SeqloomError, match="not finite"):
        trainer.run()


def _refusing(trainer: Any, *steps: int) -> None:
    """Make the checkpoints of these steps fail for lack of disk space."""
    save = trainer.checkpoints.save

    def refuse(weights: Any, training: Any, state: Any) -> None:
        if state.step in steps:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(weights, training, state)

    trainer.checkpoints.save = refuse


def test_a_full_disk_does_not_end_a_run_that_saves_again_later(make_trainer: Make, messages: list[str]) -> None:
    whole = make_trainer("whole", max_steps=12, validate=_goals(1, 5, 3))
    whole.run()
    trainer = make_trainer("full", max_steps=12, validate=_goals(1, 5, 3))
    _refusing(trainer, 8)
    state = trainer.run()
    assert trainer.checkpoints.steps() == [4, 12]
    assert messages == [
        "The checkpoint of step 8 cannot be written: No space left on device. "
        "Training continues; last checkpoint: step 4."
    ]
    assert (state.best, state.best_step) == (3, 12)  # among the saved ones
    assert os.readlink(trainer.checkpoints.folder / "best") == "step-12"
    files = [one.checkpoints.path(12) / "training.safetensors" for one in (whole, trainer)]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("stop", [None, 6])
def test_a_full_disk_at_the_end_is_an_error_and_the_run_can_be_resumed(
    make_trainer: Make, stop: int | None
) -> None:
    trainer = make_trainer(max_steps=8)
    if stop:
        _at_step(trainer, stop)
    _refusing(trainer, 6, 8)
    with pytest.raises(SeqloomError, match=r"step \d cannot be written: No space left on device\.") as caught:
        trainer.run()
    assert caught.value.hint.startswith("last checkpoint: step 4; ")
    assert make_trainer(max_steps=8).run().finished == "reached train.max_steps=8"


def test_a_full_disk_from_the_beginning(make_trainer: Make, messages: list[str]) -> None:
    trainer = make_trainer(max_steps=8)
    _refusing(trainer, 4, 8)
    with pytest.raises(SeqloomError) as caught:
        trainer.run()
    assert "there is no earlier checkpoint" in messages[0]
    assert caught.value.hint.startswith("there is no earlier checkpoint; ")


def _some_goals(*goals: float | None) -> Callable[[], Validation | None]:
    """Return a validation that gives these goals one after the other; None: interrupted."""
    left = iter(goals)
    return lambda: None if (goal := next(left)) is None else Validation({"loss": 0.0}, goal)


def _broken_off(trainer: Any, step: int, validate: Callable[[], Validation]) -> None:
    """Request a stop during the validation of that step."""
    asked: list[bool] = []

    def stopped() -> Validation | None:
        if trainer.state.step == step:
            asked.append(True)
            return None
        return validate()

    trainer.validate, trainer.stop = stopped, lambda: bool(asked)


@pytest.mark.parametrize("step", [4, 8, 10])
def test_an_interrupted_validation_is_repeated_when_resumed(make_trainer: Make, step: int) -> None:
    options = {"max_steps": 10, "keep": 5, "ema": 0.9}
    goals = {4: 1.0, 8: 5.0, 10: 3.0}
    whole = make_trainer("whole", **options)
    whole.validate = lambda: Validation({"loss": 0.0}, goals[whole.state.step])
    whole.run()
    first = make_trainer("parts", **options)
    _broken_off(first, step, lambda: Validation({"loss": 0.0}, goals[first.state.step]))
    state = first.run()
    assert (state.step, state.finished) == (step, "")
    assert first.log.steps("valid") == [one for one in (4, 8, 10) if one < step]
    second = make_trainer("parts", **options)
    second.validate = lambda: Validation({"loss": 0.0}, goals[second.state.step])
    assert replace(second.run(), seconds=0, reported=0) == replace(whole.state, seconds=0, reported=0)
    assert second.log.steps("valid") == [one for one in (4, 8, 10) if one >= step]
    assert second.checkpoints.steps() == whole.checkpoints.steps()
    for name in ("model.safetensors", "training.safetensors"):
        files = [trainer.checkpoints.path(10) / name for trainer in (whole, second)]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_a_validation_can_be_interrupted_twice(make_trainer: Make) -> None:
    for _ in range(2):
        trainer = make_trainer(max_steps=4)
        _broken_off(trainer, 4, trainer.validate)
        assert trainer.run().finished == ""
        assert trainer.checkpoints.steps() == [4]
    assert make_trainer(max_steps=4).run().finished == "reached train.max_steps=4"


def test_an_interrupted_average_is_repeated_when_resumed(make_trainer: Make) -> None:
    options = {"max_steps": 8, "average": 2, "keep": 2}
    trainer = make_trainer(validate=_some_goals(1.0, 2.0, None), **options)
    assert trainer.run().finished == ""
    assert not trainer.checkpoints.has_average()
    again = make_trainer(validate=_some_goals(3.0), **options)
    assert again.run().finished == "reached train.max_steps=8"
    assert os.readlink(again.checkpoints.folder / "best") == "average"


@pytest.mark.parametrize(
    "step, finished, stopping, expected",
    [
        (1, False, False, Action.CONTINUE),
        (2, False, False, Action.CHECKPOINT),
        (6, False, False, Action.VALIDATE),
        (5, True, False, Action.FINISH),
        (6, True, False, Action.FINISH),
        (1, False, True, Action.STOP),
        (2, False, True, Action.CHECKPOINT_AND_STOP),
        (6, False, True, Action.STOP),  # the validation is left to the resumed run
        (5, True, True, Action.STOP),
        (4, True, True, Action.STOP),
    ],
)
def test_the_next_action_after_an_update(step: int, finished: bool, stopping: bool, expected: Action) -> None:
    config = TrainConfig(checkpoint_every=2, validate_every=6)
    assert next_action(config, step, finished=finished, stopping=stopping) is expected


def test_by_default_every_checkpoint_is_validated() -> None:
    config = TrainConfig(checkpoint_every=2)
    actions = [next_action(config, step, finished=False, stopping=False) for step in (1, 2, 3, 4)]
    assert actions == [Action.CONTINUE, Action.VALIDATE, Action.CONTINUE, Action.VALIDATE]
