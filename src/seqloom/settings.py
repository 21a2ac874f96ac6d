"""Base classes of every part's configuration: unknown keys are errors, values never change."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator


class Settings(BaseModel):
    """A part's options. The field is the only place where a default is written."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class ModelSettings(Settings):
    """An architecture's options: `size` is one dial for many fields; a field given explicitly wins."""

    SIZES: ClassVar[dict[str, dict[str, Any]]] = {}

    name: str
    size: str = "small"

    @model_validator(mode="before")
    @classmethod
    def _fill_from_size(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        size = given.get("size", cls.model_fields["size"].default)
        if size not in cls.SIZES:
            raise ValueError(f"size must be one of {', '.join(cls.SIZES)}, got {size!r}")
        return {**cls.SIZES[size], **{key: value for key, value in given.items() if value is not None}}
