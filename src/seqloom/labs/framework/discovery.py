"""Discovery of the labs: every module of `seqloom.labs` defines one, called `LAB`."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import seqloom.labs
from seqloom.errors import unknown
from seqloom.labs.framework.lab import Lab

ALL = "all"


@cache
def labs() -> dict[str, Lab[Any, Any]]:
    """Return all labs by name: first those without training, each group by the notes."""
    modules = [one.name for one in pkgutil.iter_modules(seqloom.labs.__path__) if not one.ispkg]
    found: list[Lab[Any, Any]] = [import_module(f"seqloom.labs.{name}").LAB for name in modules]
    return {lab.name: lab for lab in sorted(found, key=lambda lab: (lab.trains, lab.note.notes, lab.name))}


def lab_named(name: str) -> Lab[Any, Any]:
    """Return the lab with that name."""
    if name not in labs():
        raise unknown("lab", name, [*labs(), ALL])
    return labs()[name]


def labs_named(names: Sequence[str]) -> list[Lab[Any, Any]]:
    """Return the labs with these names, each once; `all` is every lab."""
    if ALL in names:
        return list(labs().values())
    return [lab_named(name) for name in dict.fromkeys(names)]
