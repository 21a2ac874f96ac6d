"""A study: trials of training options, proposed by Optuna and stopped early by successive halving.

The study is a folder: study.json has its settings, journal.log is the storage of Optuna, and every trial is a
run directory. Everything that is needed to continue is in these files, so the same command continues a study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.errors import SeqloomError
from seqloom.evaluate.metrics import METRICS
from seqloom.files import read_sealed
from seqloom.outputs import check_new_folder
from seqloom.run.config import Config
from seqloom.tune.report import StudyReport, report_of
from seqloom.tune.space import Space

if TYPE_CHECKING:  # an optional dependency
    from optuna import Study

SETTINGS, JOURNAL = "study.json", "journal.log"
_FACTOR = (
    3  # one in three trials continues after 1/9 and after 1/3 of the budget (Li et al. 2020, arXiv:1810.05934)
)

MakeConfig = Callable[[Mapping[str, Any]], Config]


@dataclass(frozen=True)
class StudySettings:
    """What the trials of a study have in common."""

    make_config: MakeConfig  # the configuration with these options changed, by dotted name
    space: Space
    metric: str  # loss or the name of a metric
    seed: int

    @property
    def is_maximized(self) -> bool:
        return self.metric != "loss" and METRICS[self.metric]().higher_is_better

    def record(self) -> dict[str, Any]:
        """Return the content of study.json, by which a continued study detects other settings."""
        return {
            "config": self.make_config({}).model_dump(mode="json"),
            "space": {name: row.model_dump(mode="json") for name, row in self.space.items()},
            "metric": self.metric,
            "seed": self.seed,
        }


def require_optuna() -> None:
    """Raise an error that names the missing extra if Optuna is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise SeqloomError(
            "Tuning training options needs Optuna, which is not installed.", "pip install 'seqloom[tune]'"
        ) from error


def read_report(folder: Path) -> StudyReport:
    """Return the report of the trials of a study so far."""
    require_optuna()
    settings = read_sealed(folder / SETTINGS)
    is_maximized = settings["metric"] != "loss" and METRICS[settings["metric"]]().higher_is_better
    study = open_study(folder, seed=settings["seed"], is_maximized=is_maximized)
    return report_of(study, folder, settings["metric"])


def check_study_folder(folder: Path, settings: StudySettings) -> None:
    """Raise if the folder is something else, or a study with other settings."""
    if not (folder / SETTINGS).is_file():
        check_new_folder(folder)
        return
    before, now = read_sealed(folder / SETTINGS), settings.record()
    for name in now:
        if now[name] != before.get(name):
            raise SeqloomError(
                f"The study {folder} has another {_difference(name, before.get(name), now[name])}.",
                "continue it with the command that started it, or choose another --out",
            )


def _difference(name: str, before: Any, now: Any) -> str:
    """Return the dotted name of the first difference, and both values."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*now, *before]:
            if now.get(key) != before.get(key):
                inner = key if name in ("config", "space") else f"{name}.{key}"
                return _difference(inner, before.get(key), now.get(key))
    return f"{name}: {before}, not {now}"


def open_study(folder: Path, *, seed: int, is_maximized: bool) -> Study:
    """Open the study in the folder, or create it."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    file = folder / JOURNAL
    try:
        storage = JournalStorage(JournalFileBackend(str(file)))
        study = optuna.create_study(
            storage=storage,
            study_name="seqloom",
            direction="maximize" if is_maximized else "minimize",
            pruner=optuna.pruners.SuccessiveHalvingPruner(
                min_resource=100 // _FACTOR**2, reduction_factor=_FACTOR
            ),
            load_if_exists=True,
        )
    except (ValueError, KeyError) as error:
        raise SeqloomError(f"The file {file} is damaged: {error}.", "restore it from a backup") from error
    # A continued study must not draw the same random numbers again.
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
    return study
