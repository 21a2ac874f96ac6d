"""Data options, `data.*` in a configuration: files, columns, held-out data and length limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveFloat, model_validator

from seqloom.errors import SeqloomError
from seqloom.languages import LanguagePair
from seqloom.settings import Settings

Format = Literal[
    "auto", "tsv", "csv", "jsonl", "parquet", "xlsx", "arrow", "text", "conllu",
    "tmx", "xliff", "po", "mo", "ts", "subtitles", "zip",
]  # fmt: skip
Part = Literal["train", "valid"]


def _number_or_name(value: object) -> object:
    """Convert a number to a string: `--set data.heads_column=3` is YAML, where 3 is an integer."""
    return str(value) if type(value) is int else value


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _language_pair(value: object) -> object:
    try:
        return None if value is None else LanguagePair.parse(value)
    except SeqloomError as error:
        raise ValueError(f"data.languages: {error.message[:-1]}; {error.hint}") from error


Languages = Annotated[LanguagePair | None, BeforeValidator(_language_pair)]
Files = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]
Column = Annotated[str, BeforeValidator(_number_or_name)]


class NoiseConfig(Settings):
    """Noise for denoising models, which learn to restore hidden tokens."""

    kind: Literal["none", "mask", "infill"] = Field(
        "none", description="mask: hide single tokens; infill: one [MASK] per span; mlm always uses mask"
    )
    share: float = Field(0.15, gt=0, le=1, description="fraction of tokens to hide, at least one per text")
    random: float = Field(
        0.1, ge=0, le=1, description="mask: fraction of hidden tokens replaced by a random token"
    )
    keep: float = Field(0.1, ge=0, le=1, description="mask: fraction of hidden tokens left unchanged")
    span: float = Field(3.0, ge=1, description="infill: mean span length in tokens")

    @model_validator(mode="after")
    def _shares_fit(self) -> NoiseConfig:
        if self.random + self.keep > 1:
            raise ValueError(
                f"data.noise.random={self.random:g} and data.noise.keep={self.keep:g} are fractions of the "
                "hidden tokens, so their sum must be at most 1"
            )
        return self


class DataConfig(Settings):
    """Data options: tables of pairs (`train`), two aligned files (`source`, `target`), or text.

    Plain text has no target: use `train` with format text, or a table with target_column none. A folder or a
    pattern, such as web/*.parquet, can take the place of a file; all its files form one corpus.
    """

    train: Files = Field(
        (),
        description="tables (TSV, CSV, JSONL, Parquet, also .gz), XLSX, Arrow, TMX, XLIFF, PO, MO, Qt TS or "
        "zip files, folders or patterns; - = standard input",
    )
    weights: tuple[PositiveFloat, ...] = Field(
        (), description="relative share of each `train` entry in an epoch; default: every pair once"
    )
    temperature: float | None = Field(
        None, gt=0, description="weight corpora by n^(1/T): 1 = by size; larger = small corpora more often"
    )
    stream: bool = Field(False, description="tokenise during training instead of writing a token store")
    shuffle_buffer: int = Field(65_536, ge=1, description="number of pairs shuffled and batched together")
    source: str | None = Field(None, description="text file with one source per line")
    target: str | None = Field(None, description="text file with the target of each line of `source`")
    valid: Files = Field((), description="tables of pairs for validation")
    valid_source: str | None = Field(None, description="text file with one validation source per line")
    valid_target: str | None = Field(None, description="text file with one validation target per line")
    source_column: Column | None = Field(
        None, min_length=1, description="column name, or number from 1; default: see docs/guides/data.md"
    )
    target_column: Column | None = Field(
        None, min_length=1, description="column name or number; several references: 2,3,4; none = text only"
    )
    heads_column: Column | None = Field(
        None, min_length=1, description="column with the heads of the source words, for model.positions=syntax"
    )
    tags_column: Column | None = Field(
        None,
        min_length=1,
        description="column with feature tags such as V;PST;3;SG, which are put before the source as symbols",
    )
    context: int = Field(
        0,
        ge=0,
        le=100,
        description="number of previous sources that are put before each source, separated by <sep>; an empty "
        "line begins a new conversation or document",
    )
    format: Format = Field(
        "auto", description="auto = by suffix, ignoring .gz; text = lines without targets, for language models"
    )
    languages: Languages = Field(None, description="source and target language, e.g. en-de or en-GB,pt-BR")
    valid_share: float = Field(
        0.05, ge=0, lt=1, description="fraction of training pairs held out if there is no validation file"
    )
    valid_max: int = Field(2000, ge=1, description="approximate maximum number of held-out pairs")
    max_length: int = Field(256, ge=1, description="maximum length of source and target in tokens")
    max_frames: int = Field(3000, ge=1, description="maximum source length in frames (text.tokenizer=frames)")
    long: Literal["drop", "truncate", "error"] = Field(
        "drop", description="how to handle pairs that are too long"
    )
    noise: NoiseConfig = Field(NoiseConfig.model_validate({}), description="noise for text without targets")

    @model_validator(mode="after")
    def _tables_or_two_files(self) -> DataConfig:
        for tables, source, target, names in (
            (self.train, self.source, self.target, ("train", "source", "target")),
            (self.valid, self.valid_source, self.valid_target, ("valid", "valid_source", "valid_target")),
        ):
            if (source is None) != (target is None):
                raise ValueError(f"{names[1]} and {names[2]} must be given together")
            if source is not None and self.heads_column is not None:
                raise ValueError("heads_column requires a table; with two files, use CoNLL-U for the source")
            if source is not None and self.tags_column is not None:
                raise ValueError(
                    "tags_column requires a table; in text files, write the tags before the source"
                )
            if tables and source is not None:
                raise ValueError(f"give either {names[0]}, or {names[1]} and {names[2]}")
        return self

    @model_validator(mode="after")
    def _weights_fit(self) -> DataConfig:
        if self.weights and self.temperature is not None:
            raise ValueError("data.weights and data.temperature cannot be combined: give one of them")
        if self.weights and len(self.weights) != len(self.train):
            raise ValueError(
                f"data.weights has {len(self.weights)} entries, but data.train has {len(self.train)}: "
                "give one weight per entry"
            )
        return self

    @model_validator(mode="after")
    def _context_fits(self) -> DataConfig:
        if self.context and self.is_text:
            raise ValueError("data.context needs pairs, but the data is text without targets")
        for name in ("heads_column", "tags_column"):
            if self.context and getattr(self, name) is not None:
                raise ValueError(f"data.context and data.{name} cannot be combined: give one of them")
        return self

    @property
    def is_mixed(self) -> bool:
        """Whether pairs are drawn from corpora by weight, instead of each pair once."""
        return bool(self.weights) or self.temperature is not None

    @property
    def is_text(self) -> bool:
        """Whether examples have no targets."""
        return self.format == "text" or self.target_column == "none"

    def has(self, part: Part) -> bool:
        """Return whether any file is given for this part."""
        return bool(self.train or self.source) if part == "train" else bool(self.valid or self.valid_source)
