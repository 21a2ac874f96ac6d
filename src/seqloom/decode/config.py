"""The options of search and of sampling."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from seqloom.settings import Settings

Norm = Literal["none", "length", "gnmt"]
_MOST_TOKENS = 1_000_000  # of an output: tensors are made for the longest one

Stop = Literal["ahead", "count", "hopeless", "length"]


def _words(value: object) -> object:
    """One word or several; what YAML takes for a number is a word here."""
    words = value if isinstance(value, list | tuple) else (value,)
    return tuple(word if isinstance(word, list | dict) else str(word) for word in words)


class SearchConfig(Settings):
    """How translations are looked for."""

    beam: int = Field(5, ge=1, le=10_000, description="hypotheses kept per sentence; 1 is greedy")
    nbest: int = Field(1, ge=1, description="answers per sentence")
    length_norm: Norm = Field(
        "length", description="log P is divided by |y|^α, or by ((5 + |y|) / 6)^α (gnmt), or by nothing (none)"
    )
    length_penalty: float = Field(1.0, ge=0, description="that α; 0 = rank by log P alone")
    word_reward: float = Field(0.0, ge=0, description="added to log P for every token")
    coverage_penalty: float = Field(
        0.0, ge=0, description="times Σ log min(attention, 1) over the source: what is not looked at costs"
    )
    stop: Stop = Field(
        "count",
        description="when `beam` are completed (count), and the best is ahead of all open ones (ahead); when "
        "no open one can still win (hopeless); at the maximum length (length)",
    )
    groups: int = Field(1, ge=1, description="beams side by side that avoid each other's tokens")
    diversity: float = Field(0.0, ge=0, description="what a token costs that an earlier group goes on with")
    no_repeat: int = Field(0, ge=0, le=_MOST_TOKENS, description="block repeated n-grams of this size; 0 = off")
    forbid: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(
        (), description="words that no answer contains"
    )
    require: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(
        (), description="words or phrases that every output contains, as whole words"
    )
    shortlist: bool = Field(
        False, description="answers are made of a few likely tokens (seqloom shortlist), P is renormalised"
    )
    min_length: int = Field(0, ge=0, le=_MOST_TOKENS, description="tokens that an answer has at the least")
    longest: int | None = Field(
        None, ge=1, le=_MOST_TOKENS, description="tokens that an answer has at the most"
    )
    max_length_factor: float = Field(
        3.0, ge=0, le=1000, description="a hypothesis is cut after this x source tokens"
    )
    max_length_extra: int = Field(50, ge=1, le=_MOST_TOKENS, description="plus this many tokens")
    batch_tokens: int = Field(16_384, ge=1, description="source tokens x beam that are decoded together")

    @model_validator(mode="after")
    def _nbest_fits(self) -> SearchConfig:
        if self.nbest > self.beam:
            raise ValueError(
                f"search.nbest={self.nbest} is more than search.beam={self.beam} can give; "
                f"set search.beam to {self.nbest} or more"
            )
        if self.beam % self.groups:
            raise ValueError(f"search.groups={self.groups} does not divide search.beam={self.beam}")
        if self.diversity and self.groups == 1:
            raise ValueError(
                f"search.diversity={self.diversity:g} keeps groups apart, and there is one; set search.groups"
            )
        if self.require and self.groups > 1:
            raise ValueError(
                f"search.require has a beam for every number of words said, so search.groups={self.groups} "
                "cannot be kept apart as well; set search.groups=1"
            )
        if self.longest is not None and self.min_length >= self.longest:
            raise ValueError(
                f"search.min_length={self.min_length} leaves no room below search.longest={self.longest}"
            )
        return self

    def differing(self, names: Collection[str]) -> list[str]:
        """Return those of the named options whose values are not their defaults."""
        default = SearchConfig.model_validate({})
        return [
            name
            for name in SearchConfig.model_fields
            if name in names and getattr(self, name) != getattr(default, name)
        ]

    def changed(self, beam: int | None, nbest: int | None) -> SearchConfig:
        """These options with another beam or number of answers, where one is given."""
        given = {name: value for name, value in (("beam", beam), ("nbest", nbest)) if value is not None}
        if all(getattr(self, name) == value for name, value in given.items()):
            return self
        return SearchConfig.checked({**self.model_dump(), **given}, "search")

    def max_length(self, source_tokens: int) -> int:
        """How many target tokens, the end included, a hypothesis may have."""
        limit = int(self.max_length_factor * source_tokens) + self.max_length_extra
        return limit if self.longest is None else min(limit, self.longest)


class SamplingConfig(Settings):
    """How samples are drawn; the options that cut the distribution apply in the order of the fields."""

    samples: int = Field(1, ge=1, le=10_000, description="answers drawn per sentence")
    seed: int = Field(1, ge=0, description="another seed, other samples")
    temperature: float = Field(1.0, ge=0, description="P^(1/this), renormalised; 0 = the most probable token")
    top_k: int = Field(0, ge=0, description="only the k most probable tokens; 0 = all")
    top_p: float = Field(1.0, gt=0, le=1, description="only the most probable tokens that make up this mass")
    min_p: float = Field(
        0.0, ge=0, le=1, description="only tokens of at least this x the most probable one's P"
    )
    typical: float = Field(
        1.0, gt=0, le=1, description="only the tokens of this mass whose log P is nearest to the expected one"
    )

    @model_validator(mode="after")
    def _samples_differ(self) -> SamplingConfig:
        if self.temperature == 0 and self.samples > 1:
            raise ValueError(
                f"sampling.samples={self.samples} with sampling.temperature=0 gives the same answer "
                f"{self.samples} times; raise the temperature or ask for one sample"
            )
        return self
