"""Base classes for options: unknown names are errors, and values are immutable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from seqloom.errors import SeqloomError, quoted
from seqloom.suggestions import unknown_option

_LARGEST_FLOAT = 1e30  # much larger numbers are infinite in single precision


class Settings(BaseModel):
    """Options of one section. Each default is defined only in its field."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @classmethod
    def checked(
        cls,
        values: Mapping[str, Any],
        section: str,
        where: str = "the options",
        other_options: Iterable[str] = (),
    ) -> Self:
        """Return the options with these values, or raise a SeqloomError that names the first wrong one.

        `other_options` are dotted names in other sections, suggested for an option that does not exist.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            path = [part for part in first["loc"] if isinstance(part, str)]
            key = ".".join((section, *path))
            if first["type"] == "extra_forbidden":
                raise unknown_option(key, cls._options(section, path[:-1]), where, other_options) from error
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
    def _is_representable(cls, value: Any) -> Any:
        """Reject numbers that exceed 64-bit integers or single precision."""
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise PydanticCustomError("too_large", "input should fit into 64 bits")
        if isinstance(value, float) and abs(value) > _LARGEST_FLOAT:
            raise PydanticCustomError("too_large", f"input should be at most {_LARGEST_FLOAT:g}")
        return value

    @classmethod
    def sections(cls) -> dict[str, type[Settings]]:
        """Return the fields that are sections of options themselves."""
        kinds = {name: info.annotation for name, info in cls.model_fields.items()}
        return {
            name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Settings)
        }

    @classmethod
    def option_names(cls, section: str) -> list[str]:
        """Return the dotted names of all options, including those of sections inside this one."""
        nested = cls.sections()
        own = [f"{section}.{name}" for name in cls.model_fields if name not in nested]
        return own + [
            option for name, kind in nested.items() for option in kind.option_names(f"{section}.{name}")
        ]

    @classmethod
    def _options(cls, section: str, path: Sequence[str]) -> list[str]:
        """Return the dotted names of the options in the section that the path leads to."""
        if path:
            return cls.sections()[path[0]]._options(f"{section}.{path[0]}", path[1:])
        return [f"{section}.{name}" for name in cls.model_fields]


class ModelSettings(Settings):
    """Options of an architecture: `size` is a preset of several fields; explicit fields override it."""

    SIZES: ClassVar[dict[str, dict[str, Any]]] = {}

    name: str = Field(description="architecture; see `seqloom models`")
    size: str = Field("small", description="preset of the fields below; explicit fields override it")

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
