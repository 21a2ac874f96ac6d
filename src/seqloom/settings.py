"""Base classes of every part's configuration: unknown keys are errors, values never change."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from seqloom.errors import SeqloomError, quoted

_LARGEST = 1e30  # of a float: much more is infinite in single precision


class Settings(BaseModel):
    """A part's options. The field is the only place where a default is written."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @classmethod
    def checked(cls, values: Mapping[str, Any], section: str, where: str = "the options") -> Self:
        """The options of these values; what is wrong with them is one sentence."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            path = [part for part in first["loc"] if isinstance(part, str)]
            key = ".".join((section, *path))
            if first["type"] == "extra_forbidden":
                raise unknown_option(key, cls._options(section, path[:-1]), where) from error
            if first["type"] == "model_type":
                raise SeqloomError(
                    f"{key} in {where} must be a section of options, got {quoted(first['input'])}."
                ) from error
            if first["type"] == "value_error":
                raise SeqloomError(f"{first['ctx']['error']} (in {where}).") from error
            message = first["msg"][0].lower() + first["msg"][1:]
            raise SeqloomError(f"{key} in {where}: {message}, got {quoted(first['input'])}.") from error

    @field_validator("*")
    @classmethod
    def _can_be_computed_with(cls, value: Any) -> Any:
        """Refuse numbers that no library takes: beyond 64 bits, or beyond single precision."""
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise PydanticCustomError("too_large", "input should fit into 64 bits")
        if isinstance(value, float) and abs(value) > _LARGEST:
            raise PydanticCustomError("too_large", f"input should be at most {_LARGEST:g}")
        return value

    @classmethod
    def sections(cls) -> dict[str, type[Settings]]:
        """The fields that are sections of options themselves."""
        kinds = {name: info.annotation for name, info in cls.model_fields.items()}
        return {
            name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Settings)
        }

    @classmethod
    def _options(cls, section: str, path: Sequence[str]) -> list[str]:
        """The dotted names of the options in the section to which the path leads."""
        if path:
            return cls.sections()[path[0]]._options(f"{section}.{path[0]}", path[1:])
        return [f"{section}.{name}" for name in cls.model_fields]


def unknown_option(key: str, options: list[str], where: str) -> SeqloomError:
    """The error for an option that does not exist, with the nearest one that does."""
    # Compared without the section: all options of a section would look alike otherwise.
    by_name = {option.rpartition(".")[2]: option for option in options}
    near = [by_name[name] for name in difflib.get_close_matches(key.rpartition(".")[2], by_name, n=1)]
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(options)}"
    return SeqloomError(f"There is no option {key} (in {where}).", hint)


class ModelSettings(Settings):
    """An architecture's options: `size` is one dial for many fields; a field given explicitly wins."""

    SIZES: ClassVar[dict[str, dict[str, Any]]] = {}

    name: str = Field(description="the architecture; see `seqloom models`")
    size: str = Field("small", description="one dial for the fields below; a field that is given wins")

    @model_validator(mode="before")
    @classmethod
    def _fill_from_size(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        size = given.get("size", cls.model_fields["size"].default)
        if not isinstance(size, str) or size not in cls.SIZES:
            raise ValueError(f"size must be one of {', '.join(cls.SIZES)}, got {quoted(size)}")
        return {**cls.SIZES[size], **{key: value for key, value in given.items() if value is not None}}

    @property
    def reads_trees(self) -> bool:
        """Whether the model needs the dependency tree of every source."""
        return False
