"""Figure of a study: the result of every trial, and its course."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import BLUE, VERMILLION, Style, legend_below
from seqloom.tune.report import StudyReport, TrialResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PRUNED = "0.65"  # grey


@dataclass(frozen=True)
class StudyFigure(Inspection):
    """Results by trial, and the metric over the budget; pruned trials are grey, the best one is red."""

    report: StudyReport

    def to_dict(self) -> dict[str, Any]:
        """Return the report of the study."""
        return self.report.as_dict()

    def _title(self) -> str:
        return f"{len(self.report.trials)} trials of {self.report.folder.name}"

    def _size(self) -> tuple[float, float]:
        return 8.0, 3.8

    def _draw(self, figure: Figure, style: Style) -> None:
        by_trial, course = figure.subplots(1, 2, sharey=True)
        handles = [*self._draw_results(by_trial), self._draw_courses(course)]
        by_trial.set_xlabel("trial")
        by_trial.set_ylabel(self.report.metric)
        course.set_xlabel("percent of the budget")
        for axes in (by_trial, course):
            axes.grid()
        legend_below(figure, [handle for handle in handles if handle is not None], style)

    def _draw_results(self, axes: Axes) -> list[Any]:
        """Draw the result of every trial and the best one so far."""
        handles = []
        for state, color in (("pruned", _PRUNED), ("complete", BLUE)):
            trials = self._with_value(state)
            numbers, values = [trial.number for trial in trials], [trial.value or 0.0 for trial in trials]
            handles.append(axes.plot(numbers, values, "o", color=color, label=state)[0])
        done = self._with_value("complete")
        best = list(accumulate((trial.value or 0.0 for trial in done), self._better))
        numbers = [trial.number for trial in done]
        handles.append(axes.plot(numbers, best, drawstyle="steps-post", color=BLUE, label="best so far")[0])
        return handles

    def _draw_courses(self, axes: Axes) -> Any:
        """Draw the validations of every trial; return the line of the best one."""
        best, handle = self.report.best, None
        for trial in self.report.trials:
            is_best = best is not None and trial.number == best.number
            color = VERMILLION if is_best else BLUE if trial.state == "complete" else _PRUNED
            label = f"best: trial {trial.number}"
            (line,) = axes.plot(
                list(trial.curve),
                list(trial.curve.values()),
                ".-",
                color=color,
                label=label,
                zorder=2 + is_best,
            )
            handle = line if is_best else handle
        return handle

    def _with_value(self, state: str) -> list[TrialResult]:
        return [trial for trial in self.report.trials if trial.state == state and trial.value is not None]

    def _better(self, a: float, b: float) -> float:
        return max(a, b) if self.report.is_maximized else min(a, b)
