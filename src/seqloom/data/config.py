"""The `data.*` options: which files, which columns, what is held out and what is too long."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from seqloom.settings import Settings

Format = Literal["auto", "tsv", "csv", "jsonl", "parquet", "text"]
Part = Literal["train", "valid"]


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Files = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]


class DataConfig(Settings):
    """Where the pairs come from: tables (`train`), or two line-aligned files (`source` and `target`)."""

    train: Files = Field(
        (), description="tables of pairs: TSV, CSV, JSONL, Parquet, also .gz; - = standard input"
    )
    source: str | None = Field(None, description="a text file with one source per line")
    target: str | None = Field(None, description="a text file with the target of each line of `source`")
    valid: Files = Field((), description="tables of pairs for validation")
    valid_source: str | None = Field(None, description="the validation sources, one per line")
    valid_target: str | None = Field(None, description="the validation targets, one per line")
    source_column: str = Field("1", min_length=1, description="a column's name, or its number from 1")
    target_column: str = Field("2", min_length=1, description="the same; several references: 2,3,4")
    format: Format = Field("auto", description="auto: by the suffix before .gz")
    valid_share: float = Field(
        0.05, ge=0, lt=1, description="the share held out when there is no validation file"
    )
    valid_max: int = Field(2000, ge=1, description="about the most pairs that are held out")
    max_length: int = Field(256, ge=1, description="the longest source or target, in tokens")
    long: Literal["drop", "truncate", "error"] = Field("drop", description="what happens to a longer one")

    @model_validator(mode="after")
    def _tables_or_two_files(self) -> DataConfig:
        for tables, source, target, names in (
            (self.train, self.source, self.target, ("train", "source", "target")),
            (self.valid, self.valid_source, self.valid_target, ("valid", "valid_source", "valid_target")),
        ):
            if (source is None) != (target is None):
                raise ValueError(f"{names[1]} and {names[2]} go together: give both or neither")
            if tables and source is not None:
                raise ValueError(f"give {names[0]} or {names[1]} and {names[2]}, not all of them")
        return self

    def has(self, part: Part) -> bool:
        """Whether any file is named for this part."""
        return bool(self.train or self.source) if part == "train" else bool(self.valid or self.valid_source)
