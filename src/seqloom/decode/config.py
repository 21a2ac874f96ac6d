"""The options of search."""

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
