"""The model of a task: `--task classify --model transformer-alibi` is a classifier with that encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seqloom.errors import SeqloomError, require_known
from seqloom.registry import Architecture, architecture, architectures
from seqloom.settings import ModelSettings


def with_task(tree: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return a tree of options with a model of the task.

    If the options name a model of another task, its encoder is used: the model of the task whose settings have
    most classes in common with it, with the settings of its preset that both have.
    """
    every = architectures()
    require_known("task", task, sorted({entry.task.name for entry in every.values()}))
    candidates = [entry for entry in every.values() if entry.task.name == task]
    model = dict(tree.get("model") or {})
    if not model.get("name"):
        if candidates[0].task.planned:  # the planner chooses the model
            return dict(tree)
        return {**tree, "model": {**model, "name": candidates[0].task.model or candidates[0].name}}
    given = architecture(str(model["name"]))
    if given.task.name == task:
        return dict(tree)
    chosen = _with_same_layers(given, candidates)
    preset = {key: value for key, value in given.overrides.items() if key in chosen.settings.model_fields}
    return {**tree, "model": {**preset, **model, "name": chosen.name}}


def _with_same_layers(given: Architecture, candidates: list[Architecture]) -> Architecture:
    """Return the candidate whose settings share most classes, a model rather than a preset of it."""

    def common(entry: Architecture) -> int:
        own = set(given.settings.__mro__) - set(ModelSettings.__mro__)
        return len(own & set(entry.settings.__mro__))

    best = max(candidates, key=lambda entry: (common(entry), -len(entry.overrides)))
    if common(best) == 0:
        raise SeqloomError(
            f"The model {given.name} has no layers that a model for the task {best.task.name} can have.",
            f"use one of {', '.join(entry.name for entry in candidates)}",
        )
    return best
