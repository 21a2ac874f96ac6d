"""Options of search and sampling."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from seqloom.settings import Settings

Norm = Literal["none", "length", "gnmt"]
MOST_TOKENS = 1_000_000  # per output: tensors are allocated for the maximum length

Stop = Literal["ahead", "count", "hopeless", "length"]


def _words(value: object) -> object:
    """Return a tuple of words from one word or several; a number in YAML is a word, too."""
    words = value if isinstance(value, list | tuple) else (value,)
    return tuple(word if isinstance(word, list | dict) else str(word) for word in words)


class SearchConfig(Settings):
    """Options of beam search."""

    beam: int = Field(5, ge=1, le=10_000, description="hypotheses kept per sentence; 1 is greedy")
    nbest: int = Field(1, ge=1, description="outputs per sentence; at most `beam`")
    length_norm: Norm = Field(
        "length", description="divisor of log P: |y|^α (length), ((5 + |y|) / 6)^α (gnmt) or 1 (none)"
    )
    length_penalty: float = Field(1.0, ge=0, description="exponent α of `length_norm`; 0 = rank by log P alone")
    word_reward: float = Field(0.0, ge=0, description="reward per token, added to log P")
    coverage_penalty: float = Field(
        0.0,
        ge=0,
        description="weight of Σ log min(attention, 1) over the source tokens, a penalty for little attention",
    )
    stop: Stop = Field(
        "count",
        description="stop when `stop_after` hypotheses are completed (count), and the best one scores higher "
        "than every open one (ahead); when no open one can still win (hopeless); or at the maximum length "
        "(length)",
    )
    stop_after: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="completed hypotheses after which stop=count and stop=ahead end a search; None = `beam`",
    )
    groups: int = Field(
        1,
        ge=1,
        description="groups of diverse beam search, which avoid each other's tokens; must divide `beam`",
    )
    diversity: float = Field(
        0.0, ge=0, description="penalty on log P of a token for each earlier group that continues with it"
    )
    no_repeat: int = Field(0, ge=0, le=MOST_TOKENS, description="block repeated n-grams of this size; 0 = off")
    forbid: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(
        (), description="words that no output contains"
    )
    require: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(
        (), description="words or phrases that every output contains, as whole words"
    )
    shortlist: bool = Field(
        False, description="use only likely target tokens (see seqloom shortlist) and renormalise P; faster"
    )
    min_length: int = Field(0, ge=0, le=MOST_TOKENS, description="minimum number of tokens per output")
    longest: int | None = Field(
        None,
        ge=1,
        le=MOST_TOKENS,
        description="maximum number of tokens per output, including the end; None = no fixed limit",
    )
    max_length_factor: float = Field(
        3.0, ge=0, le=1000, description="maximum output length = this x source tokens + `max_length_extra`"
    )
    max_length_extra: int = Field(
        50, ge=1, le=MOST_TOKENS, description="tokens added to the maximum output length"
    )
    batch_tokens: int = Field(16_384, ge=1, description="batch size in source tokens x beam")

    @model_validator(mode="after")
    def _nbest_fits(self) -> SearchConfig:
        if self.nbest > self.beam:
            raise ValueError(
                f"search.nbest={self.nbest} exceeds search.beam={self.beam}; "
                f"set search.beam to {self.nbest} or more"
            )
        if self.beam % self.groups:
            raise ValueError(
                f"search.groups={self.groups} does not divide search.beam={self.beam}; "
                f"set search.beam to a multiple of {self.groups}"
            )
        self._check_stop_after()
        if self.diversity and self.groups == 1:
            raise ValueError(
                f"search.diversity={self.diversity:g} needs several groups, but search.groups=1; "
                "set search.groups to 2 or more"
            )
        if self.require and self.groups > 1:
            raise ValueError(
                f"search.require does not support diverse groups, but search.groups={self.groups}; "
                "set search.groups=1"
            )
        if self.longest is not None and self.min_length >= self.longest:
            raise ValueError(
                f"search.min_length={self.min_length} must be less than search.longest={self.longest}, "
                "which includes the end of sentence"
            )
        return self

    def _check_stop_after(self) -> None:
        after = self.stop_after
        if after is None:
            return
        if self.stop not in ("count", "ahead"):
            raise ValueError(
                f"search.stop_after={after} has no effect with search.stop={self.stop}; "
                "set search.stop to count or ahead"
            )
        if self.groups > 1:
            raise ValueError(
                f"search.stop_after={after} does not support diverse groups, but search.groups={self.groups}; "
                "set search.groups=1"
            )
        if self.nbest > after:
            raise ValueError(
                f"search.nbest={self.nbest} exceeds search.stop_after={after}; "
                f"set search.stop_after to {self.nbest} or more"
            )

    def differing(self, names: Collection[str]) -> list[str]:
        """Return the named options whose values differ from their defaults."""
        default = SearchConfig.model_validate({})
        return [
            name
            for name in SearchConfig.model_fields
            if name in names and getattr(self, name) != getattr(default, name)
        ]

    def changed(self, beam: int | None, nbest: int | None) -> SearchConfig:
        """Return these options with another beam or number of outputs, where given."""
        given = {name: value for name, value in (("beam", beam), ("nbest", nbest)) if value is not None}
        if all(getattr(self, name) == value for name, value in given.items()):
            return self
        return SearchConfig.checked({**self.model_dump(), **given}, "search")

    def max_length(self, source_tokens: int) -> int:
        """Return the maximum number of target tokens of a hypothesis, including the end of sentence."""
        limit = int(self.max_length_factor * source_tokens) + self.max_length_extra
        return limit if self.longest is None else min(limit, self.longest)


class SamplingConfig(Settings):
    """Options of sampling; those that truncate the distribution apply in the order of the fields."""

    samples: int = Field(1, ge=1, le=10_000, description="samples per sentence")
    seed: int = Field(1, ge=0, description="seed of the random numbers")
    temperature: float = Field(
        1.0, ge=0, description="draw from P^(1/temperature), renormalised; 0 = always the most probable token"
    )
    top_k: int = Field(0, ge=0, description="keep only the k most probable tokens; 0 = all")
    top_p: float = Field(
        1.0, gt=0, le=1, description="keep only the most probable tokens with this total probability; 1 = all"
    )
    min_p: float = Field(
        0.0,
        ge=0,
        le=1,
        description="keep only tokens with at least this fraction of the top token's probability",
    )
    typical: float = Field(
        1.0,
        gt=0,
        le=1,
        description="keep only the tokens of this total probability whose log P is nearest to the expected "
        "one; 1 = all",
    )

    @model_validator(mode="after")
    def _samples_differ(self) -> SamplingConfig:
        if self.temperature == 0 and self.samples > 1:
            raise ValueError(
                f"sampling.samples={self.samples} with sampling.temperature=0 would give the same output "
                f"{self.samples} times; raise the temperature or set sampling.samples=1"
            )
        return self
