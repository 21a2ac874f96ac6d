"""The options of the tokenizers, `text.*` in a configuration."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from seqloom.settings import Settings

Kind = Literal["unigram", "bpe", "char", "word"]
Normalization = Literal["none", "nfc", "nfkc"]

# The names of pieces that are no text: a tag cannot be called so.
RESERVED = re.compile(r"<s>|</s>|<pad>|<unk>|<0x[0-9A-F]{2}>")


class TextConfig(Settings):
    """How text becomes tokens."""

    tokenizer: Kind = "unigram"
    target_tokenizer: Kind | None = None  # None: the kind of the source
    vocab_size: int = Field(default=8000, ge=16)
    joint: bool | None = None  # None: one model for both sides when both are of the same kind
    normalize: Normalization = "nfc"
    lowercase: bool = False
    collapse_spaces: bool = True  # False keeps every space, for code
    byte_fallback: bool = True  # a character that was never seen is spelt in bytes, nothing is unknown
    tags: tuple[str, ...] | None = None  # symbols that stay whole, such as <2de>; None: found in the data
    sample: int = Field(default=1_000_000, ge=1)  # at most so many lines train a tokenizer

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        """The tokenizer of the source and that of the target."""
        return self.tokenizer, self.target_tokenizer or self.tokenizer

    @property
    def is_joint(self) -> bool:
        """Whether one model serves both sides."""
        source, target = self.kinds
        return source == target if self.joint is None else self.joint

    @field_validator("tags")
    @classmethod
    def _tags_are_symbols(cls, tags: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for tag in tags or ():
            if not tag or any(char.isspace() for char in tag) or "▁" in tag:
                raise ValueError(f"a tag is a symbol without spaces and without '▁', got {tag!r}")
            if RESERVED.fullmatch(tag):
                raise ValueError(f"the tag {tag!r} has a name that the tokenizer keeps for itself")
        return tags and tuple(dict.fromkeys(tags))

    @model_validator(mode="after")
    def _one_model_needs_one_kind(self) -> TextConfig:
        source, target = self.kinds
        if self.joint and source != target:
            raise ValueError(
                f"joint: true needs the same tokenizer on both sides, got {source} for the source and {target} "
                "for the target; leave joint out or choose one kind"
            )
        return self
