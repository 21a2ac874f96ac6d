"""The `data.*` options: which files, which columns, what is held out and what is too long."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveFloat, model_validator

from seqloom.settings import Settings

Format = Literal["auto", "tsv", "csv", "jsonl", "parquet", "text", "conllu"]
Part = Literal["train", "valid"]


def _number_or_name(value: object) -> object:
    """A number as text: `--set data.heads_column=3` is YAML, where 3 is no text."""
    return str(value) if type(value) is int else value


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Files = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]
Column = Annotated[str, BeforeValidator(_number_or_name)]


class NoiseConfig(Settings):
    """What is hidden of a text from a model that learns to restore it."""

    kind: Literal["none", "mask", "infill"] = Field(
        "none", description="mask: tokens one by one; infill: spans, one [MASK] each; mlm always masks"
    )
    share: float = Field(0.15, gt=0, le=1, description="of the tokens of a text, at least one")
    random: float = Field(0.1, ge=0, le=1, description="mask: of the hidden, replaced by any other token")
    keep: float = Field(0.1, ge=0, le=1, description="mask: of the hidden, left as they are")
    span: float = Field(3.0, ge=1, description="infill: tokens in a span on average")

    @model_validator(mode="after")
    def _shares_fit(self) -> NoiseConfig:
        if self.random + self.keep > 1:
            raise ValueError(
                f"data.noise.random={self.random:g} and data.noise.keep={self.keep:g} are shares of one whole, "
                "so they cannot add up to more than 1"
            )
        return self


class DataConfig(Settings):
    """Where the data comes from: tables of pairs (`train`), two aligned files (`source`, `target`), or text.

    Plain text has no target: `train` with format text, or a table whose target column is none. In place of a
    file there may be a folder or a pattern, such as web/*.parquet: all its files are one corpus.
    """

    train: Files = Field(
        (), description="tables: TSV, CSV, JSONL, Parquet, also .gz; folders and patterns; - = standard input"
    )
    weights: tuple[PositiveFloat, ...] = Field(
        (), description="one for each of `train`: how much of an epoch it makes up; none: every pair once"
    )
    temperature: float | None = Field(
        None, gt=0, description="weights by size, n^(1/T): 1 = as they are, larger = small corpora more often"
    )
    stream: bool = Field(False, description="tokenise while training, write no token store")
    shuffle_buffer: int = Field(65_536, ge=1, description="pairs that are shuffled and batched together")
    source: str | None = Field(None, description="a text file with one source per line")
    target: str | None = Field(None, description="a text file with the target of each line of `source`")
    valid: Files = Field((), description="tables of pairs for validation")
    valid_source: str | None = Field(None, description="the validation sources, one per line")
    valid_target: str | None = Field(None, description="the validation targets, one per line")
    source_column: Column | None = Field(
        None, min_length=1, description="a column's name, or its number from 1; None: see docs/guides/data.md"
    )
    target_column: Column | None = Field(
        None, min_length=1, description="the same; several references: 2,3,4; none: text without targets"
    )
    heads_column: Column | None = Field(
        None, min_length=1, description="the heads of the source's words, for model.positions=syntax"
    )
    format: Format = Field(
        "auto", description="auto: by the suffix before .gz; text: lines without targets, for language models"
    )
    valid_share: float = Field(
        0.05, ge=0, lt=1, description="the share held out when there is no validation file"
    )
    valid_max: int = Field(2000, ge=1, description="about the most pairs that are held out")
    max_length: int = Field(256, ge=1, description="the longest source or target, in tokens")
    max_frames: int = Field(3000, ge=1, description="the longest source of frames (text.tokenizer=frames)")
    long: Literal["drop", "truncate", "error"] = Field("drop", description="what happens to a longer one")
    noise: NoiseConfig = Field(NoiseConfig.model_validate({}), description="hidden from the model, of text")

    @model_validator(mode="after")
    def _tables_or_two_files(self) -> DataConfig:
        for tables, source, target, names in (
            (self.train, self.source, self.target, ("train", "source", "target")),
            (self.valid, self.valid_source, self.valid_target, ("valid", "valid_source", "valid_target")),
        ):
            if (source is None) != (target is None):
                raise ValueError(f"{names[1]} and {names[2]} go together: give both or neither")
            if source is not None and self.heads_column is not None:
                raise ValueError("heads_column is a column of a table; of two files the source may be CoNLL-U")
            if tables and source is not None:
                raise ValueError(f"give {names[0]} or {names[1]} and {names[2]}, not all of them")
        return self

    @model_validator(mode="after")
    def _weights_fit(self) -> DataConfig:
        if self.weights and self.temperature is not None:
            raise ValueError("data.weights and data.temperature both say how corpora are mixed: give one")
        if self.weights and len(self.weights) != len(self.train):
            raise ValueError(
                f"data.weights has {len(self.weights)} numbers, data.train {len(self.train)} names: "
                "give one for each"
            )
        return self

    @property
    def is_mixed(self) -> bool:
        """Whether corpora are drawn from by weight, not each pair once."""
        return bool(self.weights) or self.temperature is not None

    @property
    def is_text(self) -> bool:
        """Whether examples have no targets."""
        return self.format == "text" or self.target_column == "none"

    def has(self, part: Part) -> bool:
        """Whether any file is named for this part."""
        return bool(self.train or self.source) if part == "train" else bool(self.valid or self.valid_source)
