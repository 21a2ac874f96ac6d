"""The options of the tokenizers, `text.*` in a configuration."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from seqloom.settings import Settings

Kind = Literal["unigram", "bpe", "char", "word"]
SourceKind = Literal["unigram", "bpe", "char", "word", "frames"]  # frames: the sources are files of features
Center = Literal["corpus", "sequence"]
Normalization = Literal["none", "nfc", "nfkc"]

MASK = "[MASK]"  # stands for what a masked language model has to restore

# The names of pieces that are no text: a tag cannot be called so.
RESERVED = re.compile(r"<s>|</s>|<pad>|<unk>|<0x[0-9A-F]{2}>")


_PRESETS: dict[object, dict[str, object]] = {
    "code": {"normalize": "none", "collapse_spaces": False, "byte_fallback": True},
}


class TextConfig(Settings):
    """How text becomes tokens."""

    preset: Literal["code"] | None = Field(
        None,
        description="code: keep indentation, line breaks and characters as they are (normalize none, "
        "collapse_spaces false, byte_fallback true); an option that is given wins",
    )
    tokenizer: SourceKind = Field(
        "unigram", description="unigram, bpe, char or word; frames: sources are .wav, .npy or .npz files"
    )
    target_tokenizer: Kind | None = Field(None, description="the target's, if not the same")
    vocab_size: int = Field(8000, ge=16, description="symbols at the most")
    joint: bool | None = Field(None, description="one model for both sides; None = when both are of one kind")
    normalize: Normalization = Field("nfc", description="Unicode form: nfc, nfkc or none")
    lowercase: bool = Field(False, description="fold upper case away")
    collapse_spaces: bool = Field(True, description="runs of spaces as one; false keeps them, for code")
    byte_fallback: bool = Field(True, description="spell unseen characters in bytes: nothing is unknown")
    tags: tuple[str, ...] | None = Field(None, description="symbols kept whole, e.g. <2de>; None = found")
    sample: int = Field(200_000, ge=1, description="lines that train a tokenizer at the most")
    stack: int = Field(1, ge=1, description="frames: so many side by side become one")
    center: Center = Field(
        "corpus", description="frames: the mean that is taken off, of the training corpus or of each sequence"
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("preset"), str):
            return given
        return {**_PRESETS.get(given["preset"], {}), **given}

    @property
    def kinds(self) -> tuple[SourceKind, Kind]:
        """The tokenizer of the source and that of the target; beside frames, pieces unless one is named."""
        if self.tokenizer == "frames":
            return "frames", self.target_tokenizer or "unigram"
        return self.tokenizer, self.target_tokenizer or self.tokenizer

    def of_frames(self) -> TextConfig:
        """The same for sources that are files of features: what was meant for both sides is the target's."""
        changed = {"tokenizer": "frames", "target_tokenizer": self.kinds[1]}
        return TextConfig.checked({**self.model_dump(), **changed}, "text")

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
