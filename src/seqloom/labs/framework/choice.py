"""Settings of a lab from the options of the command line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.labs.framework.lab import Lab
from seqloom.run.config import assigned
from seqloom.settings import Settings


def has_seeds(lab: Lab[Any, Any]) -> bool:
    """Return whether the experiment is repeated with several random seeds."""
    return "seeds" in lab.settings.model_fields


def settings_of(
    lab: Lab[Any, Any], *, full: bool = False, seeds: int | None = None, assignments: Sequence[str] = ()
) -> Settings:
    """Return the settings of a run: those of the mode, the number of seeds, then `--set` in order."""
    values = dict(lab.full) if full else {}
    if seeds is not None:
        if not has_seeds(lab):
            raise SeqloomError(
                f"The lab {lab.name} draws no random numbers, so it cannot be repeated with other seeds.",
                "leave out --seeds",
            )
        values["seeds"] = seeds
    values.update(assigned(assignments))
    return lab.settings.checked(values, lab.name, where="--set")


def run_command(lab: Lab[Any, Any], settings: str = "") -> str:
    """Return the command that runs a lab with the settings of a variation."""
    options = " ".join(f"--set {shlex.quote(one)}" for one in shlex.split(settings))
    return f"seqloom lab run {lab.name} {options}".strip()
