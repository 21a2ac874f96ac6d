"""Settings of a comparison: the data, the models, the budget and the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from seqloom.data.config import Column, Files
from seqloom.errors import SeqloomError
from seqloom.run.config import read_yaml
from seqloom.settings import Settings

# The history of the field, oldest first. A name that is not listed here is a registered architecture.
LADDER: Mapping[str, Mapping[str, Any]] = {
    "word-based": {
        "model.name": "phrase",
        "model.longest": 1,
        "model.aligner": "ibm1",
        "model.order": 3,
        "model.weights": "noisy-channel",
    },
    "phrase": {"model.name": "phrase"},
    "lstm-last": {"model.name": "lstm-last"},
    "lstm-bilinear": {"model.name": "lstm-bilinear"},
    "transformer": {"model.name": "transformer"},
}
SUMMARIES = {
    "word-based": "Word-based translation: IBM Model 1 and a trigram language model, argmax P(x|y) P(y) "
    "(Brown et al. 1993)"
}
MINUTES = 10.0  # budget per trained model if none is given
_FORBIDDEN = "/\\"

Options = Mapping[str, Any]


def _by_name(value: object) -> object:
    """Return `a,b`, [a, b] or [a, {b: options}] as a mapping from names to options."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    if not isinstance(value, list | tuple):
        return value
    found: dict[str, Any] = {}
    for entry in value:
        named = entry if isinstance(entry, dict) else {entry: {}}
        if repeated := found.keys() & named.keys():
            raise ValueError(f"the model {repeated.pop()} is named twice; give each variant a name of its own")
        found.update(named)
    return found


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class CompareSettings(Settings):
    """What is compared: two comparisons with equal settings and data have equal results."""

    pairs: Files = Field((), description="tables of pairs: TSV, CSV, JSONL or Parquet")
    source: str | None = Field(None, description="text file with one source per line")
    target: str | None = Field(None, description="text file with the target of each line of `source`")
    source_column: Column | None = Field(None, description="column name, or number from 1")
    target_column: Column | None = Field(None, description="column name, or number from 1")
    models: Annotated[dict[str, dict[str, Any]], BeforeValidator(_by_name)] = Field(
        {name: {} for name in LADDER},
        min_length=1,
        description="names of models; in a file also name: {option: value} for a variant",
    )
    minutes: float | None = Field(None, gt=0, description="budget of each trained model in minutes")
    steps: int | None = Field(None, ge=1, description="budget of each trained model in updates")
    seeds: int = Field(1, ge=1, le=100, description="number of runs per model, with the seeds 1, 2, ...")
    metrics: str | None = Field(
        None, description="metrics, separated by commas; the first one ranks and selects the checkpoints"
    )
    set: Annotated[tuple[str, ...], BeforeValidator(_one_or_many)] = Field(
        (), description="options of all models, e.g. train.threads=1"
    )

    @model_validator(mode="before")
    @classmethod
    def _default_budget(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("minutes") is None and given.get("steps") is None:
            return {**given, "minutes": MINUTES}
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> CompareSettings:
        if self.minutes is not None and self.steps is not None:
            raise ValueError("the budget is given twice: use either minutes or steps")
        if bool(self.pairs) == bool(self.source and self.target):
            raise ValueError("give either tables of pairs, or source and target")
        for name in self.models:
            if not name or name.startswith(".") or set(name) & set(_FORBIDDEN):
                raise ValueError(f"{name!r} is not a valid name for a model, because it names its folder")
        return self

    @property
    def budget(self) -> str:
        """The budget of a model that is trained by gradient, in words."""
        if self.steps is not None:
            return f"{self.steps:,} updates"
        return f"{self.minutes:g} minute{'' if self.minutes == 1 else 's'}"

    @property
    def limit(self) -> dict[str, Any]:
        """The budget as a training option."""
        if self.steps is not None:
            return {"train.max_steps": self.steps}
        return {"train.max_minutes": self.minutes}

    def options(self, name: str) -> dict[str, Any]:
        """Return the options of a model by their dotted names."""
        return {**LADDER.get(name, {"model.name": name}), **self.models[name]}


def compare_settings(file: Path | None, values: Mapping[str, Any]) -> tuple[CompareSettings, str | None]:
    """Return the settings of a YAML file, replaced by the values that are not None, and `out` of the file."""
    given = read_yaml(file) if file else {}
    out = given.pop("out", None)
    if out is not None and not isinstance(out, str):
        raise SeqloomError(f"out in {file} must be the name of a folder.", "e.g. out: comparison")
    chosen = {name: value for name, value in values.items() if value is not None}
    if {"minutes", "steps"} & chosen.keys():
        given = {name: value for name, value in given.items() if name not in ("minutes", "steps")}
    where = str(file) if file else "the options"
    return CompareSettings.checked({**given, **chosen}, "compare", where), out
