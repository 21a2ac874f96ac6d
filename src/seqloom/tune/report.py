"""Report of a study: every trial with its options and result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # an optional dependency
    from optuna import Study
    from optuna.trial import FrozenTrial

_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "unfinished"}


@dataclass(frozen=True)
class TrialResult:
    """Options and result of a trial."""

    number: int  # from 1
    state: str  # complete, pruned, failed or unfinished
    value: float | None  # the metric of the best checkpoint; of a pruned trial, the last one
    options: Mapping[str, Any]
    curve: Mapping[int, float]  # percent of the budget → metric
    run: str
    steps: int | None
    seconds: float | None
    error: str | None


@dataclass(frozen=True)
class StudyReport:
    """All trials of a study, and the best one."""

    folder: Path
    metric: str
    is_maximized: bool
    trials: Sequence[TrialResult]

    @property
    def best(self) -> TrialResult | None:
        """The completed trial with the best result, if there is one."""
        done = [trial for trial in self.trials if trial.state == "complete" and trial.value is not None]
        sign = -1 if self.is_maximized else 1
        return min(done, key=lambda trial: sign * (trial.value or 0.0), default=None)

    @property
    def ranked(self) -> list[TrialResult]:
        """The trials, completed ones first, best first."""
        sign = -1 if self.is_maximized else 1
        order = list(_STATES.values())

        def key(trial: TrialResult) -> tuple[int, bool, float]:
            return order.index(trial.state), trial.value is None, sign * (trial.value or 0.0)

        return sorted(self.trials, key=key)

    def summary(self, index: int) -> str:
        """Return one line about a trial, given by its index."""
        trial, best = self.trials[index], self.best
        value = "" if trial.value is None else f", {self.metric} {trial.value:.4g}"
        against = "" if best is None else f"; best so far {best.value:.4g} (trial {best.number})"
        return f"trial {trial.number} {trial.state}{value}{against}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON-compatible data."""
        best = self.best
        return {
            "metric": self.metric,
            "higher_is_better": self.is_maximized,
            "best": None if best is None else best.number,
            "trials": [asdict(trial) for trial in self.trials],
        }


def report_of(study: Study, folder: Path, metric: str) -> StudyReport:
    """Return the report of a study; trials that wait are left out."""
    trials = [_result(trial) for trial in study.trials if trial.state.name in _STATES]
    return StudyReport(folder, metric, study.direction.name == "MAXIMIZE", trials)


def _result(trial: FrozenTrial) -> TrialResult:
    attributes = trial.user_attrs
    return TrialResult(
        number=trial.number + 1,
        state=_STATES[trial.state.name],
        value=trial.value if trial.value is not None and math.isfinite(trial.value) else None,
        options=trial.params,
        curve={percent: value for percent, value in trial.intermediate_values.items() if math.isfinite(value)},
        run=attributes.get("run", ""),
        steps=attributes.get("steps"),
        seconds=attributes.get("seconds"),
        error=attributes.get("error"),
    )
