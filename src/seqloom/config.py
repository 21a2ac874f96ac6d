"""One configuration of the parts' own: a YAML file, flags and --set give the same run."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import SerializeAsAny, ValidationError

from seqloom.data.config import DataConfig
from seqloom.decode.config import SearchConfig
from seqloom.errors import SeqloomError
from seqloom.registry import architecture
from seqloom.settings import ModelSettings, Settings
from seqloom.text.config import TextConfig
from seqloom.train.config import TrainConfig


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
    file: Path | None = None, values: Mapping[str, Any] | None = None, assignments: Iterable[str] = ()
) -> Config:
    """The configuration of a file, changed by dotted values, changed by assignments `a.b=c`."""
    tree = read_yaml(file) if file else {}
    for key, value in (values or {}).items():
        if value is not None:
            _put(tree, key, value)
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator:
            raise SeqloomError(f"--set {assignment!r} is not of the form key=value.", "e.g. --set model.layers=4")
        _put(tree, key.strip(), _parse(text, assignment))
    return from_tree(tree, where=str(file) if file else "the options")


def from_tree(tree: Mapping[str, Any], where: str) -> Config:
    """The configuration of nested dicts; what is wrong with them is a sentence."""
    sections: dict[str, Any] = {key: value or {} for key, value in tree.items()}
    for key in sections:
        if key not in Config.model_fields:
            raise _unknown(key, list(Config.model_fields), where)
        if not isinstance(sections[key], Mapping):
            raise SeqloomError(f"{key} in {where} must be a section of options, got {sections[key]!r}.")
    chosen = dict(sections.get("model", {}))
    entry = architecture(str(chosen.pop("name", "transformer")))
    model = _section(entry.settings, {**entry.overrides, **chosen, "name": entry.name}, "model", where)
    parts = {
        name: _section(kind, sections.get(name, {}), name, where)
        for name, kind in (
            ("data", DataConfig),
            ("text", TextConfig),
            ("train", TrainConfig),
            ("search", SearchConfig),
        )
    }
    return Config.model_construct(model=model, **parts)


def read_yaml(file: Path) -> dict[str, Any]:
    """The file's mapping; only plain data is read, never Python objects."""
    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SeqloomError(f"The configuration {file} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise SeqloomError(
            f"The configuration {file} is not valid YAML: {reason}.", "see recipes/ for examples"
        ) from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise SeqloomError(
            f"The configuration {file} must be a mapping with sections such as model:, got {tree!r}."
        )
    return {str(key): value for key, value in tree.items()}


def _section(kind: type[Settings], values: Mapping[str, Any], name: str, where: str) -> Settings:
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join((name, *(str(part) for part in first["loc"] if isinstance(part, str))))
        if first["type"] == "extra_forbidden":
            options = [f"{name}.{field}" for field in kind.model_fields]
            raise _unknown(key, options, where) from error
        if first["type"] == "value_error":
            raise SeqloomError(f"{first['ctx']['error']} (in {where}).") from error
        message = first["msg"][0].lower() + first["msg"][1:]
        raise SeqloomError(f"{key} in {where}: {message}, got {first['input']!r}.") from error


def _unknown(key: str, options: list[str], where: str) -> SeqloomError:
    near = difflib.get_close_matches(key, options, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(options)}"
    return SeqloomError(f"There is no option {key} (in {where}).", hint)


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
    except yaml.YAMLError as error:
        raise SeqloomError(f"--set {assignment!r} has a value that is not valid YAML.") from error
