"""Studies of training options: pruning, resuming, failures and reports, with trials of a few steps."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.run import train as pipeline
from seqloom.run.directory import Run
from seqloom.training.validation import Validator
from seqloom.tune.report import StudyReport
from seqloom.tune.runner import best_value, run_study
from seqloom.tune.settings import study_settings
from seqloom.tune.study import StudySettings, read_report
from support.configs import TINY
from support.runs import write_digits, write_lines

STEPS = 9
SPACE = "train.learning_rate: {low: 0.0001, high: 0.02, log: true}\ntrain.warmup: {low: 1, high: 9}\n"

Make = Callable[..., StudySettings]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function that makes the settings of a study of digits, by loss."""
    pairs = write_digits(tmp_path / "pairs.tsv")

    def settings(space: str = SPACE, metric: str = "loss", seed: int = 1, **options: Any) -> StudySettings:
        (tmp_path / "space.yaml").write_text(space)
        values = {**TINY, "data.train": [str(pairs)], "train.max_steps": STEPS, "train.warmup": 3}
        values |= {name.replace("__", "."): value for name, value in options.items()}
        base = {name: value for name, value in values.items() if name not in ("train.warmup",)}
        file = write_lines(tmp_path / "base.yaml", [f"train: {{warmup: {values['train.warmup']}}}"])
        return study_settings(file, base, [], metric=metric, space=tmp_path / "space.yaml", seed=seed)

    return settings


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("seqloom")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def study(folder: Path, settings: StudySettings, trials: int) -> StudyReport:
    assert run_study(folder, settings, trials)
    return read_report(folder)


@contextmanager
def stopping_after(calls: int) -> Iterator[None]:
    """Ask the training to stop at this call of `stop`, as Ctrl-C does."""
    count = 0

    @contextmanager
    def signals() -> Iterator[Callable[[], bool]]:
        def stop() -> bool:
            nonlocal count
            count += 1
            return count >= calls

        yield stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "stop_on_signals", signals)
        yield


def test_every_trial_is_a_run_and_the_first_has_the_given_options(make: Make, tmp_path: Path) -> None:
    report = study(tmp_path / "study", make(), 4)
    assert [trial.number for trial in report.trials] == [1, 2, 3, 4]
    assert report.trials[0].options == {"train.learning_rate": 1e-3, "train.warmup": 3}
    assert len({str(trial.options) for trial in report.trials}) == 4
    for trial in report.trials:
        run = Run.open(tmp_path / "study" / trial.run)
        config = run.config().train
        assert (config.learning_rate, config.warmup) == tuple(trial.options.values())
        assert config.max_steps == STEPS and config.validate_every == 1
        if trial.state == "complete":
            assert trial.steps == STEPS and trial.value == best_value(run, "loss")
            valid = [entry["loss"] for entry in run.metrics() if entry["kind"] == "valid"]
            assert list(trial.curve.values()) == pytest.approx(valid) and trial.value == min(valid)
    done = [trial for trial in report.trials if trial.state == "complete"]
    assert report.best == min(done, key=lambda trial: trial.value or 0)
    saved = json.loads((tmp_path / "study" / "results.json").read_text())
    assert saved == json.loads(json.dumps(report.as_dict()))


def test_poor_trials_are_pruned_at_a_rung(make: Make, tmp_path: Path) -> None:
    space = "train.learning_rate: {choices: [0.001, 1.0e-9, 2.0e-9, 3.0e-9]}"  # the others learn nothing
    report = study(tmp_path / "study", make(space, train__warmup=1), 5)
    assert report.trials[0].options == {"train.learning_rate": 0.001}
    pruned = [trial for trial in report.trials if trial.state == "pruned"]
    assert pruned
    for trial in pruned:
        assert trial.steps in (1, 3) and max(trial.curve) in (11, 33)  # 1/9 and 1/3 of the budget
        assert trial.value == list(trial.curve.values())[-1]
        run = Run.open(tmp_path / "study" / trial.run)
        assert run.checkpoints().restore_state().finished == "pruned"  # type: ignore[union-attr]
    assert report.best == report.trials[0]
    states = [trial.state for trial in report.ranked]
    assert states == sorted(states, key=["complete", "pruned"].index)


def test_the_same_options_are_not_trained_twice(make: Make, tmp_path: Path, messages: list[str]) -> None:
    space = "train.learning_rate: {choices: [0.001, 1.0e-9]}"
    report = study(tmp_path / "study", make(space), 4)
    by_rate: dict[float, list[Any]] = {}
    for trial in report.trials:
        by_rate.setdefault(trial.options["train.learning_rate"], []).append(trial)
    for trials in by_rate.values():
        assert {(one.run, one.state, one.value, one.steps) for one in trials} == {
            (trials[0].run, trials[0].state, trials[0].value, trials[0].steps)
        }
    assert len(list((tmp_path / "study").glob("trial-*"))) == len(by_rate)
    assert any("same options as trial" in message for message in messages)


def test_a_pruned_trial_can_be_resumed_as_a_run(make: Make, tmp_path: Path) -> None:
    run = pipeline.create(make(train__validate_every=2).make_config({}), tmp_path / "run", quiet=True)
    assert pipeline.continue_run(run, quiet=True, review=lambda progress, result: "pruned").step == 2
    assert pipeline.continue_run(run, quiet=True).finished == f"reached train.max_steps={STEPS}"


def test_an_interrupted_study_continues_where_it_stopped(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with stopping_after(19):  # in the second trial
        assert not run_study(folder, make(), 3)
    before = read_report(folder)
    assert [trial.state for trial in before.trials] == ["complete", "unfinished"]
    stopped_at = max(Run.open(folder / "trial-002").checkpoints().steps())
    assert 0 < stopped_at < STEPS
    times = {file: file.stat().st_mtime_ns for file in (folder / "trial-001").rglob("*") if file.is_file()}

    after = study(folder, make(), 3)
    assert after.trials[0] == before.trials[0]
    assert all(file.stat().st_mtime_ns == time for file, time in times.items())
    assert after.trials[1].options == before.trials[1].options
    assert len(after.trials) == 3 and {trial.state for trial in after.trials} <= {"complete", "pruned"}
    log = (folder / "trial-002" / "log.txt").read_text()
    assert f"stopped at step {stopped_at}" in log

    whole = study(tmp_path / "whole", make(), 2)
    assert after.trials[:2] == [
        _without_time(one, like) for one, like in zip(whole.trials, after.trials, strict=False)
    ]


def _without_time(trial: Any, like: Any) -> Any:
    from dataclasses import replace

    return replace(trial, seconds=like.seconds)


@pytest.mark.parametrize("where", ["create", "train"])
def test_a_crash_in_a_trial_loses_nothing(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    folder, settings = tmp_path / "study", make()
    study(folder, settings, 1)
    with monkeypatch.context() as patch:
        if where == "create":
            patch.setattr("seqloom.tune.runner.create", _crash)
        else:
            patch.setattr(Validator, "__call__", _crash)
        with pytest.raises(KeyboardInterrupt):
            run_study(folder, settings, 3)
    before = read_report(folder).trials
    assert [trial.state for trial in before] == ["complete", "unfinished"]
    after = study(folder, settings, 3).trials
    assert [trial.number for trial in after] == [1, 2, 3]
    assert after[0] == before[0] and after[1].options == before[1].options


def _crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_more_trials_are_added_and_finished_ones_are_not_repeated(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    first = study(folder, make(), 2)
    more = study(folder, make(), 4)
    assert more.trials[:2] == first.trials and len(more.trials) == 4
    assert len({str(trial.options) for trial in more.trials}) == 4  # other random numbers than before
    assert study(folder, make(), 3).trials == more.trials


def test_a_study_with_other_settings_is_not_continued(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    study(folder, make(), 1)
    for other, message in [
        (make(train__clip=0.5), r"train\.clip: 1\.0, not 0\.5"),
        (make(SPACE.replace("high: 9", "high: 8")), r"train\.warmup\.high"),
        (make(seed=2), "seed: 1, not 2"),
        (make(metric="chrf"), "train.metrics"),
    ]:
        with pytest.raises(SeqloomError, match=message):
            run_study(folder, other, 2)
    assert len(read_report(folder).trials) == 1


def test_a_folder_with_something_else_is_refused(make: Make, tmp_path: Path) -> None:
    write_lines(tmp_path / "file", ["x"])
    with pytest.raises(SeqloomError, match="not a folder"):
        run_study(tmp_path / "file", make(), 1)
    (tmp_path / "folder").mkdir()
    write_lines(tmp_path / "folder" / "file", ["x"])
    with pytest.raises(SeqloomError, match="not empty"):
        run_study(tmp_path / "folder", make(), 1)


def test_a_damaged_journal_is_an_error(make: Make, tmp_path: Path) -> None:
    study(tmp_path / "study", make(), 1)
    file = tmp_path / "study" / "journal.log"
    file.write_text("x\n" + file.read_text())
    with pytest.raises(SeqloomError, match=r"journal\.log is damaged"):
        read_report(tmp_path / "study")


def test_a_failed_trial_is_recorded_and_the_study_continues(make: Make, tmp_path: Path) -> None:
    space = "model.width: {choices: [16, 24]}\nmodel.heads: {choices: [2, 3]}"  # 3 does not divide 16
    report = study(tmp_path / "study", make(space, model__heads=None, model__width=None), 7)
    failed = [trial for trial in report.trials if trial.state == "failed"]
    assert failed and all(trial.options == {"model.width": 16, "model.heads": 3} for trial in failed)
    assert "model.heads=3" in (failed[0].error or "")
    assert report.best is not None and report.best not in failed


def test_several_failures_in_a_row_end_the_study(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("seqloom.tune.runner.continue_run", fail)
        with pytest.raises(SeqloomError, match="3 trials in a row") as caught:
            run_study(tmp_path / "study", make(), 9)
    assert "memory" in caught.value.message
    assert [trial.state for trial in read_report(tmp_path / "study").trials] == ["failed"] * 3


def test_a_study_needs_validation_data(make: Make, tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match="no validation data") as caught:
        run_study(tmp_path / "study", make(data__valid_share=0.0), 2)
    assert "--valid" in caught.value.hint
    assert not (tmp_path / "study").exists()


def test_given_options_outside_the_space_are_not_a_trial(
    make: Make, tmp_path: Path, messages: list[str]
) -> None:
    report = study(tmp_path / "study", make("train.warmup: {low: 4, high: 9}"), 1)
    assert report.trials[0].options["train.warmup"] >= 4
    assert any("train.warmup=3 is not in the space" in message for message in messages)


def test_a_budget_in_minutes_takes_its_validations_from_earlier_trials(make: Make, tmp_path: Path) -> None:
    settings = make(train__max_steps=None, train__max_minutes=0.02)
    report = study(tmp_path / "study", settings, 2)
    first, second = (Run.open(tmp_path / "study" / trial.run).config().train for trial in report.trials)
    assert first.validate_every is None
    assert second.validate_every == -(-(report.trials[0].steps or 0) // 9)


def test_a_metric_is_maximized(make: Make, tmp_path: Path) -> None:
    settings = make(metric="chrf", search__longest=2)
    assert settings.is_maximized and not make(metric="per").is_maximized
    report = study(tmp_path / "study", settings, 2)
    values = [trial.value for trial in report.trials if trial.state == "complete" and trial.value is not None]
    assert report.is_maximized and report.best is not None and report.best.value == max(values)


def test_without_optuna_the_error_names_the_extra(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SeqloomError, match="Optuna") as caught:
        run_study(tmp_path / "study", make(), 1)
    assert caught.value.hint == "pip install 'seqloom[tune]'"
    assert not (tmp_path / "study").exists()


def test_one_process_runs_a_study_at_a_time(make: Make, tmp_path: Path) -> None:
    from seqloom.locks import locked

    study(tmp_path / "study", make(), 1)
    with (
        locked(tmp_path / "study" / ".seqloom.lock", "busy"),
        pytest.raises(SeqloomError, match="is being run by"),
    ):
        run_study(tmp_path / "study", make(), 2)
