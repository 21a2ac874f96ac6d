"""One configuration of the parts' own: a YAML file, flags and --set give the same run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import SerializeAsAny

from seqloom.data.config import DataConfig
from seqloom.decode.config import SearchConfig
from seqloom.errors import SeqloomError
from seqloom.registry import architecture
from seqloom.settings import ModelSettings, Settings, unknown_option
from seqloom.text.config import TextConfig
from seqloom.training.config import TrainConfig


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
            raise SeqloomError(
                f"--set {assignment!r} is not of the form key=value.", "e.g. --set model.layers=4"
            )
        _put(tree, key.strip(), _parse(text, assignment))
    return from_tree(tree, where=str(file) if file else "the options")


def from_tree(tree: Mapping[str, Any], where: str) -> Config:
    """The configuration of nested dicts; what is wrong with them is a sentence."""
    sections: dict[str, Any] = {key: {} if value is None else value for key, value in tree.items()}
    for key in sections:
        if key not in Config.model_fields:
            raise unknown_option(key, list(Config.model_fields), where)
        if not isinstance(sections[key], Mapping):
            raise SeqloomError(f"{key} in {where} must be a section of options, got {sections[key]!r}.")
    chosen = dict(sections.get("model", {}))
    entry = architecture(str(chosen.pop("name", "transformer")))
    return Config(
        data=DataConfig.checked(sections.get("data", {}), "data", where),
        text=TextConfig.checked(sections.get("text", {}), "text", where),
        model=entry.settings.checked({**_changed(entry.overrides, chosen), "name": entry.name}, "model", where),
        train=TrainConfig.checked(sections.get("train", {}), "train", where),
        search=SearchConfig.checked(sections.get("search", {}), "search", where),
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
