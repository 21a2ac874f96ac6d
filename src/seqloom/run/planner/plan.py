"""A plan: options chosen for a corpus, this machine and a time budget, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from seqloom.data.column_roles import column_roles
from seqloom.data.config import DataConfig
from seqloom.data.readers import read_corpus
from seqloom.data.report import DataReport, clean
from seqloom.data.shards import corpora
from seqloom.data.tables import first_cells, table_format
from seqloom.errors import SeqloomError, require_known
from seqloom.progress import counter
from seqloom.registry import architecture
from seqloom.run.config import Config, from_options, with_options
from seqloom.run.data_settings import adapt_to_data
from seqloom.run.planner.calibration import Speed, measure_speed, rows_per_update
from seqloom.run.planner.facts import DataFacts, measure
from seqloom.run.planner.rules import (
    ADAPT,
    MODEL,
    SEARCH,
    TEXT,
    TRAIN,
    Rule,
    Situation,
    Value,
)
from seqloom.types import Example

PlanMode = Literal["auto", "fixed"]
MINUTES = 30.0  # budget if the user gives no limit
_LIMITS = ("train.max_steps", "train.max_minutes", "train.max_epochs")
# Options that must fit together: if the user gives one of them, the others keep their defaults.
_TOGETHER = (
    {
        "text.tokenizer",
        "text.target_tokenizer",
        "text.joint",
        "text.preset",
        "text.byte_fallback",
        "text.sampling",
    },
    {"model.size", "model.width", "model.layers", "model.decoder_layers", "model.heads", "model.ffn"},
    {"train.metrics", "train.best_by"},
    {"train.keep", "train.average"},
    {"train.ema", "train.shard"},
)
_ROWS = 2000  # rows that determine the roles of columns
_COLUMNS = "guide data"
_USUAL_UPDATES = 8000  # if only minutes are limited and no speed is measured
_USEFUL = 0.9  # share of the time that is spent on updates; validation takes the rest


@dataclass(frozen=True)
class Choice:
    """One option of a plan."""

    option: str
    value: Value
    reason: str
    source: str


@dataclass(frozen=True)
class Prediction:
    """Expected cost of training."""

    minutes: float
    updates: int
    epochs: float
    target_tokens_per_second: float
    parameters: int
    memory_mb: float
    processor_hours: float


@dataclass(frozen=True)
class Plan:
    """Options for a corpus, and what training with them costs."""

    data: DataFacts
    choices: list[Choice]
    prediction: Prediction | None  # None: the user limits updates or epochs, so no speed was measured

    @property
    def values(self) -> dict[str, Value]:
        """The chosen options by their dotted names."""
        return {choice.option: choice.value for choice in self.choices}

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for plan.json and --json."""
        return {
            "data": self.data.as_dict(),
            "choices": [asdict(choice) for choice in self.choices],
            "prediction": asdict(self.prediction) if self.prediction else None,
        }


def plan_mode(mode: str | None, config: str | Path | None) -> PlanMode:
    """Return the mode of planning: `fixed` by default if there is a configuration file, else `auto`."""
    chosen = mode or ("fixed" if config else "auto")
    require_known("plan", chosen, get_args(PlanMode))
    return cast(PlanMode, chosen)


def compose_with_plan(
    tree: Mapping[str, Any], mode: PlanMode, *, minutes: float | None = None
) -> tuple[Config, Plan | None]:
    """Return the configuration of a new run, and the plan that chose the options left open by the user.

    Models for text and models that are fitted have no rules: they keep their defaults, without a plan.
    """
    given = from_options(tree)
    entry = architecture(given.model.name)
    if minutes is not None and entry.fitted:
        raise SeqloomError(
            f"--minutes cannot be used: the model {entry.name} is not trained by gradient.", "remove --minutes"
        )
    if mode == "auto" and not entry.fitted and entry.task.planned and given.data.noise.kind == "none":
        plan = make_plan(tree, minutes=minutes)
        return from_options(with_options(tree, plan.values), where="the plan"), plan
    _check_limits(tree, minutes)
    return from_options(with_options(tree, {} if minutes is None else {"train.max_minutes": minutes})), None


def _check_limits(tree: Mapping[str, Any], minutes: float | None) -> bool:
    """Return whether the user limits training; raise if a limit is given twice."""
    limits = [option for option, _ in _flat(tree) if option in _LIMITS]
    if limits and minutes is not None:
        raise SeqloomError(f"--minutes and {limits[0]} both limit training.", "use one of them")
    return bool(limits)


def make_plan(tree: Mapping[str, Any], *, minutes: float | None = None) -> Plan:
    """Choose the options that a tree of options leaves open.

    Training is limited to `minutes` (default: 30) unless the tree has a limit.
    """
    explicit, limited = dict(_flat(tree)), _check_limits(tree, minutes)
    columns = choose_columns(from_options(tree).data)
    tree = with_options(tree, {choice.option: choice.value for choice in columns})
    given = adapt_to_data(from_options(tree))
    data = measure(_examples(given), frames=given.text.tokenizer == "frames")
    budget = None if limited else minutes or MINUTES
    return _Planner(tree, explicit, Situation(data, budget, None, explicit), columns).plan()


def _examples(config: Config) -> Iterator[Example]:
    """Yield the clean training pairs, with a progress bar."""
    report = DataReport()
    with counter("measured pairs") as advance:
        for example in clean(read_corpus(config.data, "train", report), report):
            advance(1)
            yield example


def choose_columns(data: DataConfig) -> list[Choice]:
    """Choose the columns of a table with more than two, if their roles are clear."""
    if not data.train or any((data.source_column, data.target_column, data.tags_column, data.is_text)):
        return []
    first = corpora(data, "train")[0][0].file
    format = table_format(first, data.format)
    roles = column_roles(first_cells(first, format, _ROWS)) if format in ("tsv", "csv") else None
    if roles is None:
        return []
    choices = [
        Choice("data.source_column", str(roles.source), "first column of text", _COLUMNS),
        Choice("data.target_column", str(roles.target), "second column of text", _COLUMNS),
    ]
    if roles.tags is not None:
        choices.append(Choice("data.tags_column", str(roles.tags), "its cells are feature tags", _COLUMNS))
    return choices


def _reason(rule: Rule, situation: Situation) -> str:
    """Return the reason of a row with the measured numbers."""
    tokens = int(float(f"{situation.tokens or 0:.2g}"))
    return rule.reason.format(data=situation.data, updates=situation.updates or 0, tokens=tokens)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif value is not None:
            yield name, value


class _Planner:
    """Applies the tables of rules in order; later tables see the choices of earlier ones."""

    def __init__(
        self,
        tree: Mapping[str, Any],
        explicit: Mapping[str, Any],
        situation: Situation,
        choices: Iterable[Choice] = (),
    ) -> None:
        self._tree, self._explicit, self._situation = tree, explicit, situation
        self._choices = {choice.option: choice for choice in choices}

    def plan(self) -> Plan:
        """Apply the rules; the speed is measured between the model and the schedule."""
        if not self._situation.fine_tuning:  # the other run has tokenizers and a model
            self._apply(TEXT)
            self._apply(MODEL)
        prediction = None
        if self._situation.minutes is None:
            self._set_updates(self._updates_of_limits())
        else:
            self._choose(Choice("train.max_minutes", self._situation.minutes, "time budget", "--minutes"))
            if not self._situation.data.frames:
                prediction = self._predict(self._adapt(self._calibrate()))
        self._apply(TRAIN)
        self._apply(SEARCH)
        return Plan(self._situation.data, list(self._choices.values()), prediction)

    def _updates_of_limits(self) -> int:
        """Return the number of updates that the limits of the user allow."""
        config = self._config()
        rows = rows_per_update(config, self._situation.data)
        epochs = (config.train.max_epochs or math.inf) * self._situation.data.pairs / rows
        updates = min(config.train.max_steps or math.inf, epochs)
        return _USUAL_UPDATES if updates == math.inf else max(1, round(updates))

    def _apply(self, rules: Iterable[Rule]) -> None:
        """Add the first matching row of each open option."""
        for rule in rules:
            if rule.when(self._situation):
                self._add(rule, [option for option in rule.options if option not in self._choices])

    def _adapt(self, speed: Speed) -> Speed:
        """Replace choices that do not fit the measured speed; return the new speed."""
        for rule in ADAPT:
            applies = rule.when(self._situation) and all(map(self._is_open, rule.options))
            if applies and self._add(rule, rule.options):
                self._drop_unknown()
                speed = self._calibrate()
        return speed

    def _drop_unknown(self) -> None:
        """Drop the choices for options that a replaced model had and the new one does not have."""
        dropped = [option for option in self._choices if not self._is_open(option)]
        for option in dropped:
            del self._choices[option]
        options = {name: value for name, value in self._situation.options.items() if name not in dropped}
        self._situation = replace(self._situation, options=options)

    def _add(self, rule: Rule, options: Iterable[str]) -> bool:
        """Choose these options of a row where the user leaves them open; return whether a value changed."""
        changed = False
        for option in filter(self._is_open, options):
            value = rule.options[option]
            value = value(self._situation) if callable(value) else value
            if self._situation.options.get(option) != value:
                self._choose(Choice(option, value, _reason(rule, self._situation), rule.source))
                changed = True
        return changed

    def _choose(self, choice: Choice) -> None:
        self._choices[choice.option] = choice
        options = {**self._situation.options, choice.option: choice.value}
        self._situation = replace(self._situation, options=options)

    def _is_open(self, option: str) -> bool:
        """Return whether the user leaves an option open and the model has it."""
        explicit = self._explicit.keys()
        if option in explicit or any(option in group and group & explicit for group in _TOGETHER):
            return False
        section, _, name = option.partition(".")
        entry = architecture(str(self._situation.options.get("model.name", "transformer")))
        if option in entry.defaults or (section == "model" and name in entry.overrides):
            return False
        return section != "model" or option == "model.name" or name in entry.settings.model_fields

    def _config(self) -> Config:
        """Return the configuration with the choices so far."""
        values = {choice.option: choice.value for choice in self._choices.values()}
        return adapt_to_data(from_options(with_options(self._tree, values), where="the plan"))

    def _calibrate(self) -> Speed:
        """Measure the speed of the model chosen so far."""
        speed = measure_speed(self._config(), self._situation.data)
        seconds = 60 * (self._situation.minutes or 0) * _USEFUL
        self._set_updates(max(1, round(seconds * speed.updates_per_second)))
        tokens = round(seconds * speed.target_tokens_per_second)
        self._situation = replace(self._situation, tokens=tokens)
        return speed

    def _set_updates(self, updates: int) -> None:
        self._situation = replace(self._situation, updates=updates)

    def _predict(self, speed: Speed) -> Prediction:
        minutes, updates = self._situation.minutes or 0.0, self._situation.updates or 0
        return Prediction(
            minutes=minutes,
            updates=updates,
            epochs=updates * speed.rows / max(self._situation.data.pairs, 1),
            target_tokens_per_second=speed.target_tokens_per_second,
            parameters=speed.parameters,
            memory_mb=speed.memory_mb,
            processor_hours=minutes / 60 * speed.threads,
        )
