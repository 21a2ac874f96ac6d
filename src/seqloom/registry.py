"""The one dict of architectures. A file in models/ or statistical/ registers itself when it is imported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from seqloom.errors import unknown
from seqloom.settings import ModelSettings

# Packages whose every module is imported when the registry is asked: adding an architecture is one file.
FAMILIES = ("seqloom.models", "seqloom.statistical")


# What a model is for: to give a target to a source, to continue a text (or a source), to fill gaps in a text.
Task = Literal["translate", "continue", "fill"]


@dataclass(frozen=True)
class Architecture:
    """A model that can be chosen by name."""

    name: str
    summary: str  # one line: what it is
    paper: str  # where it comes from
    settings: type[ModelSettings]
    build: Callable[..., Any]  # build(settings, vocabularies) -> model
    overrides: Mapping[str, Any] = field(default_factory=dict)  # a preset: its fields, before the user's
    task: Task = "translate"
    counting: bool = False  # fitted at once by counting or EM, not trained by gradient
    defaults: Mapping[str, Any] = field(default_factory=dict)  # dotted options of other sections, likewise


_ARCHITECTURES: dict[str, Architecture] = {}


def register(
    name: str,
    *,
    summary: str,
    paper: str,
    settings: type[ModelSettings],
    overrides: Mapping[str, Any] | None = None,
    task: Task = "translate",
    counting: bool = False,
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that makes a model class (or a builder) available under a name."""

    def add(build: Callable[..., Any]) -> Callable[..., Any]:
        assert name not in _ARCHITECTURES, f"two architectures are called {name}"
        _ARCHITECTURES[name] = Architecture(
            name, summary, paper, settings, build, overrides or {}, task, counting, defaults or {}
        )
        return build

    return add


def architectures(*, counting: bool | None = None) -> dict[str, Architecture]:
    """Every registered architecture by name; or only those that are, or are not, fitted by counting."""
    for family in FAMILIES:
        for module in pkgutil.walk_packages(importlib.import_module(family).__path__, f"{family}."):
            importlib.import_module(module.name)
    known = sorted(_ARCHITECTURES.items())
    return {name: entry for name, entry in known if counting in (None, entry.counting)}


def architecture(name: str) -> Architecture:
    """The architecture of that name, or an error that lists the nearest ones."""
    known = architectures()
    if name not in known:
        raise unknown("model", name, known)
    return known[name]
