"""Which rules clean a corpus, and their limits. Imports nothing slow: the command line shows the defaults."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from seqloom.errors import SeqloomError, require_known

RULES = (  # in the order in which they judge a pair: the first that objects drops it
    "duplicate",
    "near-duplicate",
    "identical",
    "length-ratio",
    "script",
    "language",
    "alignment",
    "model",
)
DEFAULT_RULES = ("duplicate", "near-duplicate", "length-ratio", "script", "alignment")
OPTIONS = {  # of a single rule
    "max_ratio": "length-ratio",
    "min_script": "script",
    "source_language": "language",
    "target_language": "language",
    "min_language": "language",
    "min_alignment": "alignment",
    "threads": "alignment",
    "model": "model",
    "min_model": "model",
    "checkpoint": "model",
    "device": "model",
}
_SWITCHES = ("source_language", "target_language", "model")  # options that switch their rule on


@dataclass(frozen=True)
class CleaningOptions:
    """The rules and their limits."""

    rules: tuple[str, ...] = DEFAULT_RULES
    max_ratio: float | None = None  # target length by the one typical of the source; None: automatic
    min_script: float = 0.5  # share of letters
    source_language: str | None = None  # None: the most frequent one
    target_language: str | None = None
    min_language: float = 0.01  # probability
    min_alignment: float = 0.1  # share of the information of the typical pair
    threads: int | None = None  # of the aligner
    model: Path | None = None
    min_model: float = 0.25  # share of the information of the typical pair
    checkpoint: str | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        for rule in self.rules:
            require_known("rule", rule, RULES)
        if "model" in self.rules and self.model is None:
            raise SeqloomError("The rule model needs a trained run.", "name one with --model RUN")
        if self.max_ratio is not None and not 1 < self.max_ratio < math.inf:
            raise SeqloomError(f"--max-ratio is {self.max_ratio:g}.", "give a number above 1")
        for name in ("min_script", "min_language", "min_alignment", "min_model"):
            if not 0 <= getattr(self, name) <= 1:
                raise SeqloomError(f"{_flag(name)} is {getattr(self, name):g}.", "give a number from 0 to 1")

    @classmethod
    def chosen(cls, rules: str | None, without: str | None, given: Mapping[str, Any]) -> Self:
        """Return the options of the command line: lists of names, and values of options that are not None."""
        values = {name: value for name, value in given.items() if value is not None}
        on = [name for name in _selected(rules, values) if name not in _names(without)]
        for name in values:
            if OPTIONS[name] not in on:
                raise SeqloomError(
                    f"{_flag(name)} cannot be used: the rule {OPTIONS[name]} is off.",
                    "leave it out, or switch the rule on with --rules",
                )
        return cls(tuple(on), **values)


def _selected(rules: str | None, values: Mapping[str, Any]) -> list[str]:
    """Return the rules that are on, in the order of RULES."""
    if rules is None:
        switched = {OPTIONS[name] for name in _SWITCHES if name in values}
        return _ordered({*DEFAULT_RULES, *switched})
    everything = {name for name in RULES if name != "model" or "model" in values}
    groups = {"all": everything, "default": set(DEFAULT_RULES)}
    return _ordered(set().union(*(groups.get(name, {name}) for name in _names(rules, *groups))))


def _names(text: str | None, *groups: str) -> set[str]:
    names = {name.strip() for name in (text or "").split(",") if name.strip()}
    for name in names.difference(groups):
        require_known("rule", name, RULES)
    return names


def _ordered(names: Collection[str]) -> list[str]:
    return [name for name in RULES if name in names]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
