"""The configuration of a run, composed of a YAML file, command-line flags and --set assignments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import SerializeAsAny

from seqloom.data.config import DataConfig, Part
from seqloom.data.readers import check_tables, has_trees
from seqloom.data.tables import SUFFIXES, suffix
from seqloom.decode.config import SearchConfig
from seqloom.errors import SeqloomError, quoted
from seqloom.registry import Architecture, architecture, architectures
from seqloom.run.techniques import check_techniques
from seqloom.settings import ModelSettings, Settings
from seqloom.suggestions import unknown_option
from seqloom.text.config import TextConfig
from seqloom.training.config import TrainConfig

# PyYAML raises its own errors for syntax only; an invalid date or an empty !!int raises others.
_NOT_YAML = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError)

_Section = TypeVar("_Section", bound=Settings)


class Config(Settings):
    """All options of a run, by section."""

    data: DataConfig
    text: TextConfig
    model: SerializeAsAny[ModelSettings]
    train: TrainConfig
    search: SearchConfig

    def to_yaml(self) -> str:
        """Return the resolved configuration as YAML, including every default."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def compose(
    file: str | Path | None = None, values: Mapping[str, Any] | None = None, assignments: Iterable[str] = ()
) -> Config:
    """Return the configuration of a YAML file, overridden by dotted values, then by assignments `a.b=c`.

    Data files are not read: `adapt_to_data` completes the options that depend on them.
    """
    return from_options(option_tree(file, values, assignments), where=str(file) if file else "the options")


def option_tree(
    file: str | Path | None = None, values: Mapping[str, Any] | None = None, assignments: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the options that the user gives, by section, without any default."""
    tree = read_yaml(Path(file)) if file else {}
    for key, value in (values or {}).items():
        if value is not None:
            _put(tree, key, _without_paths(value))
    for key, value in assigned(assignments):
        _put(tree, key, value)
    return tree


def with_options(tree: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tree of options with dotted values added."""
    copy = {key: dict(value) if isinstance(value, Mapping) else value for key, value in tree.items()}
    for key, value in values.items():
        _put(copy, key, value)
    return copy


def from_options(tree: Mapping[str, Any], where: str = "the options") -> Config:
    """Return the configuration of a tree of options for a new run."""
    config = from_tree(tree, where)
    _check_columns_are_used(config.data)
    return config


def _check_columns_are_used(data: DataConfig) -> None:
    """Raise if columns are named but no table is given; columns 1 and 2 are old defaults."""
    named = {"source_column": data.source_column, "target_column": data.target_column}
    if data.has("train") and (data.source_column, data.target_column) != ("1", "2"):
        check_tables((*data.train, *data.valid), named)


def _without_paths(value: Any) -> Any:
    """Return the value with every path as text, as a YAML file would give it."""
    if isinstance(value, list | tuple):
        return [_without_paths(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def search_options(assignments: Iterable[str]) -> dict[str, Any]:
    """Return the assigned search options, by their names in the section `search`."""
    options = {}
    for key, value in assigned(assignments):
        section, _, name = key.partition(".")
        if section != "search" or name not in SearchConfig.model_fields:
            raise unknown_option(key, [f"search.{known}" for known in SearchConfig.model_fields], "--set")
        options[name] = value
    return options


def strategy_options(assignments: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the assigned search options and the assigned options of the decoding strategy."""
    every = list(assignments)
    strategy = [one for one in every if one.strip().startswith("strategy.")]
    search = search_options(one for one in every if one not in strategy)
    return search, {key.removeprefix("strategy."): value for key, value in assigned(strategy)}


def assigned(assignments: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield key and value of every `a.b=c`."""
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator:
            raise SeqloomError(
                f"--set {assignment!r} is not of the form key=value.", "e.g. --set model.layers=4"
            )
        yield key.strip(), _parse(text, assignment)


def from_tree(tree: Mapping[str, Any], where: str) -> Config:
    """Return the configuration of nested dicts; `where` names their origin in error messages."""
    sections: dict[str, Any] = {key: {} if value is None else value for key, value in tree.items()}
    for key in sections:
        if key not in Config.model_fields:
            raise unknown_option(key, list(Config.model_fields), where, option_names())
        if not isinstance(sections[key], Mapping):
            raise SeqloomError(f"{key} in {where} must be a section of options, got {quoted(sections[key])}.")
    model = dict(sections.get("model", {}))
    if not model.keys() & {"name", "size"}:
        model = _merged(_inherited_model(sections.get("train", {})), model)
    entry = _architecture(model.pop("name", "transformer"))
    for key, value in entry.defaults.items():
        section, _, option = key.partition(".")
        sections[section] = {option: value, **sections.get(section, {})}
    sections["model"] = {**_merged(entry.overrides, model), "name": entry.name}
    known = option_names(entry.settings)

    def checked(settings: type[_Section], section: str) -> _Section:
        return settings.checked(sections.get(section, {}), section, where, known)

    config = Config(
        data=_adapted_to_model(checked(DataConfig, "data"), entry),
        text=checked(TextConfig, "text"),
        model=checked(entry.settings, "model"),
        train=checked(TrainConfig, "train"),
        search=checked(SearchConfig, "search"),
    )
    check_model_fits_data(config, entry)
    check_techniques(config, entry)
    return config


def option_names(*models: type[ModelSettings]) -> list[str]:
    """Return the dotted names of all options; model options are those of `models` (default: of all)."""
    kinds = models or [entry.settings for entry in architectures().values()]
    parts = [(name, kind) for name, kind in Config.sections().items() if name != "model"]
    parts += [("model", kind) for kind in kinds]
    return list(dict.fromkeys(option for name, kind in parts for option in kind.option_names(name)))


def _inherited_model(train: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the model options of the run to start from; of a model of text, those that a Transformer has."""
    runs = train.get("init_from")
    names = runs.split(",") if isinstance(runs, str) else runs if isinstance(runs, list | tuple) else ()
    first = names[0] if names else None
    file = Path(first.strip()) / "config.yaml" if isinstance(first, str) else None
    if file is None or not file.is_file():  # reported when its weights are read
        return {}
    model = read_yaml(file).get("model")
    if not isinstance(model, dict):
        return {}
    if not _architecture(model.get("name")).task.learns_text:
        return model
    kept = architecture("transformer").settings.model_fields.keys() & model.keys() - {"name"}
    return {key: model[key] for key in kept}


def _architecture(name: Any) -> Architecture:
    return architecture(name if isinstance(name, str) else quoted(name))


def _adapted_to_model(data: DataConfig, entry: Architecture) -> DataConfig:
    """Return the data options with those that follow from the model: masking, and text or table format."""
    task = entry.task
    if task.noise != "none" and data.noise.kind == "none":
        data = data.model_copy(update={"noise": data.noise.model_copy(update={"kind": task.noise})})
    learns_text = task.learns_text or data.noise.kind != "none"
    if learns_text and data.format == "auto" and not any(suffix(file) in SUFFIXES for file in data.train):
        return data.model_copy(update={"format": "text"}) if data.train else data
    return data


def check_model_fits_data(config: Config, entry: Architecture) -> None:
    """Raise if the model cannot learn from this kind of data."""
    data, name, task = config.data, entry.name, entry.task
    if entry.fitted and config.train.init_from:
        raise SeqloomError(
            f"The model {name} is fitted to its data from scratch, so it cannot start from another run.",
            "leave out --init-from",
        )
    if not data.has("train"):
        return
    if entry.fitted and (data.stream or data.is_mixed):
        raise SeqloomError(
            f"The model {name} is fitted to every pair once, so its data cannot be a stream or a mixture.",
            "leave out data.stream, data.weights and data.temperature",
        )
    if data.is_text and not task.learns_text and data.noise.kind == "none":
        raise SeqloomError(
            f"The model {name} learns from pairs, but this data has no targets.",
            "for plain text use --model lm or mlm, or data.noise.kind=infill to learn to restore text",
        )
    if config.text.tokenizer == "frames" and (not task.reads_frames or config.model.reads_trees):
        raise SeqloomError(
            f"The model {name} reads text, but the sources of this data are feature files.",
            "use a translation model without trees, e.g. --model transformer or lstm-additive",
        )
    if task.writes_vectors != config.text.writes_vectors:
        needs = "arrays (.npy or .npz files)" if task.writes_vectors else "text"
        raise SeqloomError(
            f"The model {name} writes {needs}, but text.target_tokenizer={config.text.target_tokenizer}.",
            "vectors and distributions are for lstm-vectors and transformer-vectors, other kinds for others",
        )
    parts: tuple[Part, ...] = ("train", "valid")
    if config.model.reads_trees and not all(has_trees(data, part) for part in parts if data.has(part)):
        raise SeqloomError(
            f"The model {name} needs the dependency tree of every source, but this data has none.",
            "set data.heads_column to the column of heads, or give a CoNLL-U file as --source",
        )
    if not data.is_text and data.noise.kind != "none":
        raise SeqloomError(
            f"The model {name} with data.noise.kind={data.noise.kind} learns to restore masked text, but this "
            "data is pairs.",
            "give plain text (data.format=text), or one column of a table (data.target_column=none)",
        )
    if data.noise.kind not in task.noises:
        raise SeqloomError(
            f"The model {name} cannot learn with data.noise.kind={data.noise.kind}.",
            "leave it out, or use --model transformer to restore masked text",
        )
    if data.is_text and not config.text.is_joint:
        raise SeqloomError(
            "Plain text has one side, so it needs one tokenizer.",
            "leave out text.joint=false and text.target_tokenizer",
        )
    if data.is_text and config.train.metrics:
        raise SeqloomError(
            "train.metrics needs translations and references, but plain text has no targets.",
            "leave train.metrics out; the loss is always measured",
        )


def _merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the base updated with the given values, section by section."""
    tree = dict(base)
    for key, value in given.items():
        nested = isinstance(value, Mapping) and isinstance(tree.get(key), Mapping)
        tree[key] = _merged(tree[key], value) if nested else value
    return tree


def read_yaml(file: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file; only plain data is read, never Python objects."""
    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SeqloomError(f"The configuration {file} cannot be read: {error.strerror}.") from error
    except _NOT_YAML as error:
        reason = " ".join(str(error).split())
        raise SeqloomError(
            f"The configuration {file} is not valid YAML: {reason}.", "see recipes/ for examples"
        ) from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise SeqloomError(
            f"The configuration {file} must be a mapping with sections such as model:, got {quoted(tree)}."
        )
    return {str(key): value for key, value in tree.items()}


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        below = tree.setdefault(part, {})
        if below is None:
            below = tree[part] = {}
        if not isinstance(below, dict):
            raise SeqloomError(f"{key} cannot be set: {part} is a value, not a section.")
        tree = below
    tree[last] = value


def _parse(text: str, assignment: str) -> Any:
    try:
        return yaml.safe_load(text)
    except _NOT_YAML as error:
        name = assignment.partition("=")[0]
        raise SeqloomError(
            f"--set {assignment!r} has a value that is not valid YAML.",
            f"put text in double quotes: --set '{name}=\"...\"'",
        ) from error
