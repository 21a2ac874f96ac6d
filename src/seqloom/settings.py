"""Base classes of every part's configuration: unknown keys are errors, values never change."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from seqloom.errors import SeqloomError


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
            key = ".".join((section, *(str(part) for part in first["loc"] if isinstance(part, str))))
            if first["type"] == "extra_forbidden":
                raise unknown_option(key, [f"{section}.{name}" for name in cls.model_fields], where) from error
            if first["type"] == "value_error":
                raise SeqloomError(f"{first['ctx']['error']} (in {where}).") from error
            message = first["msg"][0].lower() + first["msg"][1:]
            raise SeqloomError(f"{key} in {where}: {message}, got {first['input']!r}.") from error


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
            raise ValueError(f"size must be one of {', '.join(cls.SIZES)}, got {size!r}")
        return {**cls.SIZES[size], **{key: value for key, value in given.items() if value is not None}}
