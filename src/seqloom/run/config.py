"""One configuration of the parts' own: a YAML file, flags and --set give the same run."""

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
from seqloom.settings import ModelSettings, Settings
from seqloom.suggestions import unknown_option
from seqloom.text.config import TextConfig
from seqloom.training.config import TrainConfig

# The library has its own error for grammar only: a date that is none, or an empty !!int, it stumbles over.
_NOT_YAML = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError)

_Section = TypeVar("_Section", bound=Settings)


class Config(Settings):
    """Everything that a run is made of."""

    data: DataConfig
    text: TextConfig
    model: SerializeAsAny[ModelSettings]
    train: TrainConfig
    search: SearchConfig

    def to_yaml(self) -> str:
        """The resolved configuration, every default written out."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def compose(
    file: str | Path | None = None, values: Mapping[str, Any] | None = None, assignments: Iterable[str] = ()
) -> Config:
    """Return the configuration of a YAML file, overridden by dotted values, then by assignments `a.b=c`.

    Data files are not read: `adapt_to_data` completes the options that depend on them.
    """
    tree = read_yaml(Path(file)) if file else {}
    for key, value in (values or {}).items():
        if value is not None:
            _put(tree, key, _without_paths(value))
    for key, value in assigned(assignments):
        _put(tree, key, value)
    config = from_tree(tree, where=str(file) if file else "the options")
    _check_columns_are_used(config.data)
    return config


def _check_columns_are_used(data: DataConfig) -> None:
    """Raise if columns are named and there is no table; 1 and 2 are what configurations had by default."""
    named = {"source_column": data.source_column, "target_column": data.target_column}
    if data.has("train") and (data.source_column, data.target_column) != ("1", "2"):
        check_tables((*data.train, *data.valid), named)


def _without_paths(value: Any) -> Any:
    """Return the value with every path as text, as a YAML file would give it."""
    if isinstance(value, list | tuple):
        return [_without_paths(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def search_options(assignments: Iterable[str]) -> dict[str, Any]:
    """The options of the search that are assigned, by their names in the section."""
    options = {}
    for key, value in assigned(assignments):
        section, _, name = key.partition(".")
        if section != "search" or name not in SearchConfig.model_fields:
            raise unknown_option(key, [f"search.{known}" for known in SearchConfig.model_fields], "--set")
        options[name] = value
    return options


def strategy_options(assignments: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the search and those of the decoding strategy that are assigned."""
    given = list(assignments)
    own = [one for one in given if one.strip().startswith("strategy.")]
    search = search_options(one for one in given if one not in own)
    return search, {key.removeprefix("strategy."): value for key, value in assigned(own)}


def assigned(assignments: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Key and value of every `a.b=c`."""
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator:
            raise SeqloomError(
                f"--set {assignment!r} is not of the form key=value.", "e.g. --set model.layers=4"
            )
        yield key.strip(), _parse(text, assignment)


def from_tree(tree: Mapping[str, Any], where: str) -> Config:
    """The configuration of nested dicts; what is wrong with them is a sentence."""
    sections: dict[str, Any] = {key: {} if value is None else value for key, value in tree.items()}
    for key in sections:
        if key not in Config.model_fields:
            raise unknown_option(key, list(Config.model_fields), where, option_names())
        if not isinstance(sections[key], Mapping):
            raise SeqloomError(f"{key} in {where} must be a section of options, got {quoted(sections[key])}.")
    chosen = dict(sections.get("model", {}))
    if not chosen.keys() & {"name", "size"}:
        chosen = _changed(_inherited(sections.get("train", {})), chosen)
    entry = _named(chosen.pop("name", "transformer"))
    for key, value in entry.defaults.items():
        section, _, option = key.partition(".")
        sections[section] = {option: value, **sections.get(section, {})}
    sections["model"] = {**_changed(entry.overrides, chosen), "name": entry.name}
    known = option_names(entry.settings)

    def checked(settings: type[_Section], section: str) -> _Section:
        return settings.checked(sections.get(section, {}), section, where, known)

    config = Config(
        data=_settled(checked(DataConfig, "data"), entry),
        text=checked(TextConfig, "text"),
        model=checked(entry.settings, "model"),
        train=checked(TrainConfig, "train"),
        search=checked(SearchConfig, "search"),
    )
    check_model_fits_data(config, entry)
    return config


def option_names(*models: type[ModelSettings]) -> list[str]:
    """Return the dotted names of all options, with those of these models or else of all architectures."""
    kinds = models or [entry.settings for entry in architectures().values()]
    parts = [(name, kind) for name, kind in Config.sections().items() if name != "model"]
    parts += [("model", kind) for kind in kinds]
    return list(dict.fromkeys(option for name, kind in parts for option in kind.option_names(name)))


def _inherited(train: Mapping[str, Any]) -> Mapping[str, Any]:
    """The model of the run to start from, if none is named; of an `lm` or `mlm` what a Transformer has."""
    runs = train.get("init_from")
    names = runs.split(",") if isinstance(runs, str) else runs if isinstance(runs, list | tuple) else ()
    first = names[0] if names else None
    file = Path(first.strip()) / "config.yaml" if isinstance(first, str) else None
    if file is None or not file.is_file():  # what is wrong with it is told where its weights are read
        return {}
    theirs = read_yaml(file).get("model")
    if not isinstance(theirs, dict) or _named(theirs.get("name")).task == "translate":
        return theirs if isinstance(theirs, dict) else {}
    kept = architecture("transformer").settings.model_fields.keys() & theirs.keys() - {"name"}
    return {key: theirs[key] for key in kept}


def _named(name: Any) -> Architecture:
    return architecture(name if isinstance(name, str) else quoted(name))


def _settled(data: DataConfig, entry: Architecture) -> DataConfig:
    """The data options with what the model decides: what is masked, and whether a file is text or a table."""
    if entry.task == "fill" and data.noise.kind == "none":
        data = data.model_copy(update={"noise": data.noise.model_copy(update={"kind": "mask"})})
    learns_text = entry.task != "translate" or data.noise.kind != "none"
    if learns_text and data.format == "auto" and not any(suffix(file) in SUFFIXES for file in data.train):
        return data.model_copy(update={"format": "text"}) if data.train else data
    return data


def check_model_fits_data(config: Config, entry: Architecture) -> None:
    """Raises if the model cannot learn from such data."""
    data, name = config.data, entry.name
    if entry.fitted and config.train.init_from:
        raise SeqloomError(
            f"The model {name} is counted anew from its data, so it cannot start from another run.",
            "leave out --init-from",
        )
    if not data.has("train"):
        return
    if entry.fitted and (data.stream or data.is_mixed):
        raise SeqloomError(
            f"The model {name} is counted from every pair once, so its data is neither a stream nor a mixture.",
            "leave out data.stream, data.weights and data.temperature",
        )
    if data.is_text and entry.task == "translate" and data.noise.kind == "none":
        raise SeqloomError(
            f"The model {name} learns from pairs, and this data has no targets.",
            "for plain text choose --model lm or mlm, or data.noise.kind=infill to learn to restore it",
        )
    if config.text.tokenizer == "frames" and (entry.task != "translate" or config.model.reads_trees):
        raise SeqloomError(
            f"The model {name} reads text, and the sources of this data are files of features.",
            "choose a model that translates without trees, e.g. --model transformer or lstm-additive",
        )
    parts: tuple[Part, ...] = ("train", "valid")
    if config.model.reads_trees and not all(has_trees(data, part) for part in parts if data.has(part)):
        raise SeqloomError(
            f"The model {name} reads the dependency tree of every source, and this data has none.",
            "name the column of heads (data.heads_column) of a table, or give a CoNLL-U file as --source",
        )
    if not data.is_text and data.noise.kind != "none":
        raise SeqloomError(
            f"Parts of a text are hidden from the model ({name}, data.noise.kind={data.noise.kind}), and this "
            "data is pairs.",
            "give plain text (data.format=text), or one column of a table (data.target_column=none)",
        )
    if entry.task == "fill" and data.noise.kind == "infill":
        raise SeqloomError(
            f"The model {name} fills one token per gap, so it cannot learn with data.noise.kind=infill.",
            "leave it out, or restore spans with --model transformer",
        )
    if data.is_text and not config.text.is_joint:
        raise SeqloomError(
            "Plain text has one side, so it needs one tokenizer.",
            "leave out text.joint=false and text.target_tokenizer",
        )
    if data.is_text and config.train.metrics:
        raise SeqloomError(
            "train.metrics are measured by translating, and plain text has nothing to compare with.",
            "leave them out: the loss is always measured",
        )


def _changed(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the given values; a section in both keeps what the given one does not mention."""
    tree = dict(base)
    for key, value in given.items():
        nested = isinstance(value, Mapping) and isinstance(tree.get(key), Mapping)
        tree[key] = _changed(tree[key], value) if nested else value
    return tree


def read_yaml(file: Path) -> dict[str, Any]:
    """The file's mapping; only plain data is read, never Python objects."""
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
