"""Changes to the configuration of an existing run: new training limits, or other search options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from seqloom.decode.config import SearchConfig
from seqloom.errors import SeqloomError
from seqloom.files import sealed_text, write_atomically
from seqloom.registry import architecture
from seqloom.run.config import Config, assigned
from seqloom.run.directory import Run
from seqloom.training.config import TrainConfig

LIMITS = ("train.max_steps", "train.max_minutes", "train.max_epochs", "train.patience")


def change_limits(run: Run, assignments: Iterable[str]) -> None:
    """Replace training limits (`train.max_steps=1000`) in the configuration of a run.

    An average of the last checkpoints is removed: it is computed again at the end of the longer run.
    """
    config = run.config()
    if architecture(config.model.name).fitted:
        raise SeqloomError(
            f"The model {config.model.name} is fitted in one pass, so there are no training limits to change.",
            "start a new run with other options",
        )
    values = config.train.model_dump()
    for key, value in assigned(assignments):
        if key not in LIMITS:
            raise SeqloomError(
                f"{key} cannot be changed when a run is resumed.",
                f"change {', '.join(LIMITS)}, or start a new run with --init-from {run.folder}",
            )
        values[key.removeprefix("train.")] = value
    changed = TrainConfig.checked(values, "train", "--set")
    if changed != config.train:
        run.checkpoints(changed.keep).remove_average()
        _write(run, config.model_copy(update={"train": changed}))


def change_search(run: Run, options: Mapping[str, Any]) -> None:
    """Replace search options, such as {"beam": 4}, in the configuration of a run."""
    config = run.config()
    changed = SearchConfig.checked({**config.search.model_dump(), **options}, "search")
    if changed != config.search:
        _write(run, config.model_copy(update={"search": changed}))


def _write(run: Run, config: Config) -> None:
    write_atomically(run.config_file, sealed_text(config.to_yaml()))
