"""Tokenizer options, `text.*` in a configuration."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from seqloom.settings import Settings

Kind = Literal["unigram", "bpe", "char", "word"]
SourceKind = Literal["unigram", "bpe", "char", "word", "frames"]  # frames: sources are feature files
# Targets that are files of arrays: any vectors, or distributions, whose numbers sum to 1.
TargetKind = Literal["unigram", "bpe", "char", "word", "vectors", "distributions"]
VECTORS: tuple[TargetKind, ...] = ("vectors", "distributions")
SUBWORDS: tuple[Kind, ...] = ("unigram", "bpe")  # kinds with several segmentations of a text
Center = Literal["corpus", "sequence"]
Normalization = Literal["none", "nfc", "nfkc"]
Side = Literal["source", "target"]
Sampling = Literal["none", "source", "target", "both"]

MASK = "[MASK]"  # placeholder for the tokens that a masked language model restores

# Names of special pieces and byte pieces; a tag cannot use them.
RESERVED = re.compile(r"<s>|</s>|<pad>|<unk>|<0x[0-9A-F]{2}>")


_PRESETS: dict[object, dict[str, object]] = {
    "code": {"normalize": "none", "collapse_spaces": False, "byte_fallback": True},
}


class TextConfig(Settings):
    """Tokenizer options."""

    preset: Literal["code"] | None = Field(
        None,
        description="code: keep indentation, line breaks and characters unchanged (normalize none, "
        "collapse_spaces false, byte_fallback true); explicit options override it",
    )
    tokenizer: SourceKind = Field(
        "unigram", description="unigram, bpe, char or word; frames = sources are .wav, .npy or .npz files"
    )
    target_tokenizer: TargetKind | None = Field(
        None,
        description="tokenizer of the target; vectors or distributions: targets are .npy or .npz files; "
        "default: same as the source",
    )
    vocab_size: int = Field(8000, ge=16, description="maximum number of symbols")
    joint: bool | None = Field(
        None, description="share one model between source and target; default: if both use the same kind"
    )
    normalize: Normalization = Field("nfc", description="Unicode normalisation: nfc, nfkc or none")
    lowercase: bool = Field(False, description="convert text to lower case")
    collapse_spaces: bool = Field(
        True, description="replace runs of spaces by one space; false keeps them, e.g. for code"
    )
    byte_fallback: bool = Field(
        True, description="encode unseen characters as bytes, so that nothing is unknown"
    )
    tags: tuple[str, ...] | None = Field(
        None, description="symbols that are never split, e.g. <2de>; default: detected"
    )
    sample: int = Field(200_000, ge=1, description="maximum number of lines for training a tokenizer")
    sampling: Sampling = Field(
        "none",
        description="side to segment at random in every training batch: none, source, target or both",
    )
    sampling_alpha: float = Field(
        0.1,
        gt=0,
        description="sampling: unigram = exponent of the probabilities, smaller = more varied; "
        "bpe = probability of leaving out a merge",
    )
    sampling_nbest: int = Field(
        64, ge=-1, description="sampling, unigram: number of best segmentations to draw from; -1 = all"
    )
    stack: int = Field(
        1, ge=1, description="frames: number of consecutive frames that are concatenated into one"
    )
    center: Center = Field(
        "corpus", description="frames: subtract the mean of the training corpus or of each sequence"
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("preset"), str):
            return given
        return {**_PRESETS.get(given["preset"], {}), **given}

    @property
    def kinds(self) -> tuple[SourceKind, TargetKind]:
        """Tokenizer kinds of source and target; with frames, the target defaults to unigram."""
        if self.tokenizer == "frames":
            return "frames", self.target_tokenizer or "unigram"
        return self.tokenizer, self.target_tokenizer or self.tokenizer

    @property
    def writes_vectors(self) -> bool:
        """Whether targets are arrays instead of text."""
        return self.target_tokenizer in VECTORS

    def for_frames(self) -> TextConfig:
        """Return a copy for sources that are feature files; `tokenizer` becomes the target's tokenizer."""
        changed = {"tokenizer": "frames", "target_tokenizer": self.kinds[1]}
        return TextConfig.checked({**self.model_dump(), **changed}, "text")

    @property
    def sampled_sides(self) -> tuple[Side, ...]:
        """Sides whose subwords are sampled in training."""
        return tuple(side for side in get_args(Side) if self.sampling in (side, "both"))

    @property
    def is_joint(self) -> bool:
        """Whether both sides share one model."""
        source, target = self.kinds
        return source == target if self.joint is None else self.joint

    @field_validator("tags")
    @classmethod
    def _tags_are_symbols(cls, tags: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for tag in tags or ():
            if not tag or any(char.isspace() for char in tag) or "▁" in tag:
                raise ValueError(f"a tag must not be empty or contain spaces or '▁', got {tag!r}")
            if RESERVED.fullmatch(tag):
                raise ValueError(f"the tag {tag!r} is a reserved name of the tokenizer")
        return tags and tuple(dict.fromkeys(tags))

    @model_validator(mode="after")
    def _one_model_needs_one_kind(self) -> TextConfig:
        source, target = self.kinds
        if self.joint and source != target:
            raise ValueError(
                "joint: true requires the same tokenizer on both sides, "
                f"got {source} for the source and {target} for the target; remove joint or choose one kind"
            )
        return self

    @model_validator(mode="after")
    def _sampled_sides_have_subwords(self) -> TextConfig:
        for side, kind in zip(("source", "target"), self.kinds, strict=True):
            if side not in self.sampled_sides:
                continue
            if kind not in SUBWORDS:
                raise ValueError(
                    f"text.sampling={self.sampling} needs subwords (unigram or bpe), but the {side} is {kind}; "
                    "change the tokenizer, or sample the other side only"
                )
            if kind == "bpe" and self.sampling_alpha > 1:
                raise ValueError(
                    f"text.sampling_alpha={self.sampling_alpha:g} is a probability with bpe, so at most 1"
                )
        if self.sampling_nbest in (0, 1):
            raise ValueError(
                f"text.sampling_nbest={self.sampling_nbest} leaves nothing to draw from; use -1 or at least 2"
            )
        return self
