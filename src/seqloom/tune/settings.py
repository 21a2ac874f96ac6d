"""Settings of a study from the options of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import one_metric
from seqloom.registry import architecture
from seqloom.run.config import Config, assigned, compose
from seqloom.tune.space import check_values, default_space, read_space
from seqloom.tune.study import StudySettings
from seqloom.tune.validation import metric_of


def study_settings(
    file: Path | None,
    values: Mapping[str, Any],
    assignments: Sequence[str],
    *,
    metric: str | None = None,
    space: Path | None = None,
    seed: int = 1,
) -> StudySettings:
    """Return the settings of a study; the first three arguments are those of `compose`.

    The options of `file` are those of the first trial. The other given options are the same in all trials.
    """
    given = compose(file, values, assignments)
    if architecture(given.model.name).fitted:
        raise SeqloomError(
            f"The model {given.model.name} is fitted in one pass, without the training options that are tuned.",
            "choose a model that is trained by gradient descent, e.g. --model transformer",
        )
    fixed = {name for name, value in values.items() if value is not None}
    fixed |= {name for name, _ in assigned(assignments)}
    goal = _metric(given, metric, fixed)
    common = {**values, **_common_options(given, goal)}

    def make_config(options: Mapping[str, Any]) -> Config:
        return compose(file, {**common, **options}, assignments)

    if (best_by := make_config({}).train.best_by) != goal:
        raise SeqloomError(
            f"train.best_by={best_by} is set, but the study tunes {goal}.", f"use --metric {best_by}"
        )
    if space is None:
        rows = default_space(given, fixed=fixed, metric=goal)
    else:
        rows = read_space(space, given, fixed=fixed, metric=goal)
    check_values(rows, make_config)
    return StudySettings(make_config, rows, goal, seed)


def _metric(config: Config, metric: str | None, fixed: set[str]) -> str:
    """Return the metric to tune for: plain text has only the loss."""
    if metric is None:
        is_loss = config.data.is_text or ("train.best_by" in fixed and config.train.best_by == "loss")
        metric = "loss" if is_loss else metric_of(config.train)
    return metric if metric == "loss" else one_metric(metric).name


def _common_options(config: Config, metric: str) -> dict[str, Any]:
    """Return the options that a study sets in all trials."""
    metrics = [*config.train.metrics, *([] if metric == "loss" else [metric])]
    return {
        "train.metrics": list(dict.fromkeys(metrics)),
        "train.best_by": metric,
        "train.keep": max(1, config.train.average),  # many runs need much disk space
    }
