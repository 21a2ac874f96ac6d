"""The search space: which training options are tuned, and in which range."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from seqloom.errors import SeqloomError, quoted
from seqloom.registry import architecture
from seqloom.run.config import Config, option_names, read_yaml
from seqloom.settings import Settings
from seqloom.suggestions import unknown_option

Value = bool | int | float | str


class Range(Settings):
    """Values of an option: numbers from `low` to `high`, or a list of choices."""

    low: int | float | None = Field(None, description="smallest value; with two integers, only integers")
    high: int | float | None = Field(None, description="largest value")
    log: bool = Field(False, description="draw the logarithm evenly, not the value")
    choices: tuple[Value, ...] = Field((), description="the values, instead of a range")

    @model_validator(mode="after")
    def _is_a_range(self) -> Range:
        if self.choices:
            if (self.low, self.high, self.log) != (None, None, False):
                raise ValueError("a list of choices has no low, high or log")
            return self
        if self.low is None or self.high is None:
            raise ValueError("an option needs low and high, or choices")
        if self.low >= self.high:
            raise ValueError(f"low={self.low} must be less than high={self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic range must begin above 0, got low={self.low}")
        return self

    @property
    def is_integer(self) -> bool:
        """Whether only integers are drawn."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def contains(self, value: Any) -> bool:
        """Return whether a value can be drawn."""
        if self.low is None or self.high is None:
            return value in self.choices
        return isinstance(value, int | float) and self.low <= value <= self.high

    def examples(self) -> tuple[Value, ...]:
        """Return the choices, or the ends of the range."""
        return self.choices or tuple(end for end in (self.low, self.high) if end is not None)


def _between(low: float, high: float, *, log: bool = False) -> Range:
    return Range.model_validate({"low": low, "high": high, "log": log})


def _one_of(*choices: Value) -> Range:
    return Range.model_validate({"choices": choices})


Space = Mapping[str, Range]

# The default space. Options that the model does not have, and options that the user sets, are left out.
SPACE: Space = {
    "text.vocab_size": _one_of(1000, 2000, 4000, 8000, 16000),
    "model.layers": _between(1, 6),
    "model.dropout": _between(0.0, 0.5),
    "train.learning_rate": _between(2e-4, 5e-3, log=True),
    "train.warmup": _between(50, 2000, log=True),
    "train.batch_tokens": _between(1000, 16_000, log=True),
    "train.label_smoothing": _between(0.0, 0.3),
}

# Options that a study sets itself, because its trials must be comparable.
_SET_BY_STUDY = {
    f"train.{name}"
    for name in (
        *("max_steps", "max_minutes", "max_epochs", "metrics", "best_by", "validate_every", "validate_lines"),
        *("keep", "init_from", "device", "threads", "shard"),
    )
}


def default_space(config: Config, *, fixed: Collection[str], metric: str) -> dict[str, Range]:
    """Return the rows of `SPACE` that apply to the model and that the user has not fixed."""
    known = option_names(architecture(config.model.name).settings)
    left_out = {*fixed}
    if not {config.text.tokenizer, config.text.target_tokenizer} & {"unigram", "bpe"}:
        left_out.add("text.vocab_size")
    if config.text.writes_vectors:  # label smoothing is for symbols
        left_out.add("train.label_smoothing")
    if metric == "loss":  # per token, so it depends on the tokenizer
        left_out |= {name for name in SPACE if name.startswith("text.")}
    if config.train.init_from:  # which has its own tokenizers and layers
        left_out |= {name for name in SPACE if name.startswith("text.")} | {"model.layers"}
    space = {name: row for name, row in SPACE.items() if name in known and name not in left_out}
    if not space:
        raise SeqloomError("No option is left to tune: all are set.", "set fewer options, or give --space FILE")
    return space


def read_space(file: Path, config: Config, *, fixed: Collection[str], metric: str) -> dict[str, Range]:
    """Return the space of a YAML file; raise if one of its options is unknown, fixed or not comparable."""
    rows = read_yaml(file)
    if not rows:
        raise SeqloomError(
            f"{file} is empty.", "e.g. train.learning_rate: {low: 0.0001, high: 0.01, log: true}"
        )
    known = option_names(architecture(config.model.name).settings)
    for name in rows:
        if name not in known:
            raise unknown_option(name, known, str(file))
        _check_can_be_tuned(name, file, fixed, metric)
    return {name: _range(name, row, file) for name, row in rows.items()}


def _range(name: str, row: Any, file: Path) -> Range:
    if not isinstance(row, Mapping):
        raise SeqloomError(
            f"{name} in {file} must be a range or a list of choices, got {quoted(row)}.",
            "e.g. {low: 0.1, high: 0.5} or {choices: [1, 2, 4]}",
        )
    return Range.checked(row, name, str(file))


def _check_can_be_tuned(name: str, file: Path, fixed: Collection[str], metric: str) -> None:
    section = name.partition(".")[0]
    if section == "search":
        raise SeqloomError(
            f"{name} in {file} is not a training option.", "tune it after training: seqloom tune search RUN"
        )
    if section == "data" or name in _SET_BY_STUDY:
        raise SeqloomError(
            f"{name} in {file} cannot be tuned: trials must be comparable.",
            "remove it; it can be set for all trials with --set or --config",
        )
    if section == "text" and metric == "loss":
        raise SeqloomError(
            f"{name} in {file} cannot be tuned by the loss, which is per token and depends on the tokenizer.",
            "use another metric, e.g. --metric chrf",
        )
    if name in fixed:
        raise SeqloomError(
            f"{name} is in {file}, but it is also set.", f"remove it from {file}, or do not set it"
        )


def check_values(space: Space, make_config: Callable[[Mapping[str, Any]], Config]) -> None:
    """Raise if an end of a range or a choice is not a valid value of its option."""
    for name, row in space.items():
        for value in row.examples():
            make_config({name: value})


def value_of(config: Config, name: str) -> Any:
    """Return the value of a dotted option."""
    found: Any = config
    for part in name.split("."):
        found = getattr(found, part)
    return found
