"""The options of search and of sampling."""

from __future__ import annotations

from pydantic import Field, model_validator

from seqloom.settings import Settings


class SearchConfig(Settings):
    """How translations are looked for."""

    beam: int = Field(5, ge=1, description="hypotheses kept per sentence; 1 is greedy")
    nbest: int = Field(1, ge=1, description="answers per sentence")
    length_penalty: float = Field(1.0, ge=0, description="rank by log P / length^this; 0 = by log P alone")
    max_length_factor: float = Field(3.0, ge=0, description="a hypothesis is cut after this x source tokens")
    max_length_extra: int = Field(50, ge=1, description="plus this many tokens")
    batch_tokens: int = Field(4096, ge=1, description="source tokens x beam that are decoded together")

    @model_validator(mode="after")
    def _nbest_fits(self) -> SearchConfig:
        if self.nbest > self.beam:
            raise ValueError(f"search.nbest={self.nbest} is more than search.beam={self.beam} can give")
        return self

    def max_length(self, source_tokens: int) -> int:
        """How many target tokens, the end included, a hypothesis may have."""
        return int(self.max_length_factor * source_tokens) + self.max_length_extra


class SamplingConfig(Settings):
    """How samples are drawn; the options that cut the distribution apply in the order of the fields."""

    samples: int = Field(1, ge=1, description="answers drawn per sentence")
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
