"""Running of the trials of a study."""

from __future__ import annotations

import logging
import math
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from seqloom.errors import SeqloomError
from seqloom.files import sealed, write_json
from seqloom.locks import locked
from seqloom.outputs import write_errors
from seqloom.progress import duration
from seqloom.run.directory import Run
from seqloom.run.train import continue_run, create
from seqloom.training.step import is_out_of_memory
from seqloom.training.trainer import Validation
from seqloom.tune.report import report_of
from seqloom.tune.space import Range, value_of
from seqloom.tune.study import SETTINGS, StudySettings, check_study_folder, open_study, require_optuna
from seqloom.tune.validation import validation_data

if TYPE_CHECKING:  # an optional dependency
    from optuna import Trial
    from optuna.trial import FrozenTrial

logger = logging.getLogger(__name__)

RESULTS = "results.json"
VALIDATIONS = 9  # per trial, so that 1/9 and 1/3 of the budget, where trials are compared, have a result
_MOST_FAILURES = 3  # in a row
_PRUNED = "pruned"


def run_study(folder: Path, settings: StudySettings, trials: int) -> bool:
    """Run trials until the study has this number of them; return False if it was interrupted.

    An unfinished trial of an earlier call is continued first. results.json is written after each trial.
    """
    require_optuna()
    with write_errors(folder):
        check_study_folder(folder, settings)
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / ".seqloom.lock", f"The study {folder} is being run"):
            if not (folder / SETTINGS).is_file():
                write_json(folder / SETTINGS, sealed(settings.record()))
            runner = _StudyRunner(folder, settings, trials)
            try:
                return runner.run()
            except SeqloomError:
                if not runner.has_results():  # wrong options or data: another study may use the folder
                    shutil.rmtree(folder)
                raise


class _StudyRunner:
    """Runs the trials of a study, one after the other."""

    def __init__(self, folder: Path, settings: StudySettings, trials: int) -> None:
        self.folder, self.settings, self.count = folder, settings, trials
        self.study = open_study(folder, seed=settings.seed, is_maximized=settings.is_maximized)
        self._failures = 0

    def run(self) -> bool:
        """Run all trials that are missing; return False if one was interrupted."""
        self._enqueue_given_options()
        start, done = time.monotonic(), 0
        while (trial := self._next_trial()) is not None:
            if not self._run_trial(trial):
                return False
            done += 1
            report = report_of(self.study, self.folder, self.settings.metric)
            left = (time.monotonic() - start) / done * (self.count - trial.number - 1)
            logger.info(f"{report.summary(trial.number)}; about {duration(max(left, 0))} left")
            write_json(self.folder / RESULTS, report.as_dict())
        return True

    def has_results(self) -> bool:
        """Return whether a trial has ended."""
        return any(trial.state.is_finished() for trial in self.study.trials)

    def _enqueue_given_options(self) -> None:
        """Make the given options the first trial, with which the others are compared."""
        if self.study.trials:
            return
        config = self.settings.make_config({})
        given = {name: value_of(config, name) for name in self.settings.space}
        outside = [name for name, row in self.settings.space.items() if not row.contains(given[name])]
        if outside:
            logger.info(
                f"no trial with the given options: {outside[0]}={given[outside[0]]} is not in the space"
            )
        else:
            self.study.enqueue_trial(given)

    def _next_trial(self) -> Trial | None:
        """Return the trial that was interrupted, or a new one; None if there are enough."""
        from optuna.trial import Trial, TrialState

        for frozen in self.study.get_trials(states=(TrialState.RUNNING,)):
            return Trial(self.study, frozen._trial_id)  # Optuna has no other way to continue a trial
        finished = self.study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
        return self.study.ask() if len(finished) < self.count else None

    def _run_trial(self, trial: Trial) -> bool:
        """Train one trial and record its result; return False if it was interrupted."""
        from optuna.trial import TrialState

        params = {name: _suggest(trial, name, row) for name, row in self.settings.space.items()}
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in params.items())
        logger.info(f"trial {trial.number + 1} of {self.count}: {shown}")
        if (same := self._finished_with(params)) is not None:
            self._repeat_result(trial, same)
            return True
        run = Run(self.folder / f"trial-{trial.number + 1:03d}")
        trial.set_user_attr("run", run.folder.name)
        if not self.has_results():  # an error is then about the data, not about the options of one trial
            self._create(run, params)
            validation_data(run)
        try:
            finished = self._train(run, params, trial)
        except (SeqloomError, MemoryError, RuntimeError) as error:
            if not isinstance(error, SeqloomError) and not is_out_of_memory(error):
                raise
            self._record_failure(trial, error)
            return True
        if not finished:
            return False
        self._failures = 0
        if finished == _PRUNED:
            self.study.tell(trial, state=TrialState.PRUNED)
        else:
            self.study.tell(trial, best_value(run, self.settings.metric))
        return True

    def _finished_with(self, params: Mapping[str, Any]) -> FrozenTrial | None:
        """Return an earlier trial with the same options: training is deterministic, so its result is known."""
        ended = (trial for trial in self.study.trials if trial.state.is_finished())
        return next((trial for trial in ended if trial.params == params), None)

    def _repeat_result(self, trial: Trial, same: FrozenTrial) -> None:
        """Give a trial the result of an earlier one."""
        logger.info(f"same options as trial {same.number + 1}, so it is not trained again")
        for name, value in same.user_attrs.items():
            trial.set_user_attr(name, value)
        for percent, value in same.intermediate_values.items():
            trial.report(value, percent)
        self.study.tell(trial, same.value if same.state.name == "COMPLETE" else None, same.state)

    def _record_failure(self, trial: Trial, error: Exception) -> None:
        """Mark a trial as failed; raise if several fail in a row: the cause is then not in its options."""
        from optuna.trial import TrialState

        message = error.message if isinstance(error, SeqloomError) else "Not enough memory."
        logger.warning(f"trial {trial.number + 1} failed: {message}")
        trial.set_user_attr("error", message)
        self.study.tell(trial, state=TrialState.FAIL)
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            raise SeqloomError(
                f"{_MOST_FAILURES} trials in a row have failed; the last error: {message}",
                f"fix the cause, or change the options; the study is kept in {self.folder}",
            ) from error

    def _train(self, run: Run, params: Mapping[str, Any], trial: Trial) -> str:
        """Train the run of a trial; return why it ended, "" if it was interrupted."""
        self._create(run, params)
        state = continue_run(run, review=self._review(trial))
        trial.set_user_attr("steps", state.step)
        trial.set_user_attr("seconds", round(state.seconds, 1))
        return state.finished

    def _create(self, run: Run, params: Mapping[str, Any]) -> None:
        """Create the run of a trial unless it exists."""
        if not run.folder.is_dir():
            create(self.settings.make_config({**params, **self._validation_interval()}), run.folder)

    def _validation_interval(self) -> dict[str, int]:
        """Return the option for about `VALIDATIONS` validations per trial, if the user has not set it.

        With a budget in minutes, the number of steps is known from earlier trials only.
        """
        from optuna.trial import TrialState

        train = self.settings.make_config({}).train
        if train.validate_every is not None:
            return {}
        done = self.study.get_trials(states=(TrialState.COMPLETE,))
        steps = train.max_steps or (median(trial.user_attrs["steps"] for trial in done) if done else None)
        return {} if steps is None else {"train.validate_every": math.ceil(steps / VALIDATIONS)}

    def _review(self, trial: Trial) -> Callable[[float, Validation], str]:
        """Return a function that reports validations to Optuna and ends the trial if it is pruned."""
        reported = set(self.study.trials[trial.number].intermediate_values)

        def review(progress: float, validation: Validation) -> str:
            percent = int(100 * progress)
            if percent not in reported:  # a resumed trial repeats a validation that was not saved
                reported.add(percent)
                trial.report(validation.metrics[self.settings.metric], percent)
            return _PRUNED if progress < 1 and trial.should_prune() else ""

        return review


def best_value(run: Run, metric: str) -> float:
    """Return the metric of the checkpoint that the run uses."""
    best = [entry for entry in run.metrics() if entry["kind"] in ("valid", "average") and entry["best"]]
    return float(best[-1][metric])


def _suggest(trial: Trial, name: str, row: Range) -> Any:
    """Return the value of an option in this trial."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about value types that a storage cannot keep; ours are plain
        if row.low is None or row.high is None:
            return trial.suggest_categorical(name, list(row.choices))
        if row.is_integer:
            return trial.suggest_int(name, int(row.low), int(row.high), log=row.log)
        return trial.suggest_float(name, float(row.low), float(row.high), log=row.log)


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
