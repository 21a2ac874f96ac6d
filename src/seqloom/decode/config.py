"""The options of search."""

from __future__ import annotations

from pydantic import Field, model_validator

from seqloom.settings import Settings


class SearchConfig(Settings):
    beam: int = Field(default=5, ge=1)  # 1 is greedy
    nbest: int = Field(default=1, ge=1)
    length_penalty: float = Field(default=1.0, ge=0)  # rank by log P / length^this; 0 ranks by log P alone
    # A hypothesis is cut, and marked as cut, after factor x (source tokens) + extra tokens.
    max_length_factor: float = Field(default=3.0, ge=0)
    max_length_extra: int = Field(default=50, ge=1)
    batch_tokens: int = Field(default=4096, ge=1)  # padded source tokens x beam that are decoded together

    @model_validator(mode="after")
    def _nbest_fits(self) -> SearchConfig:
        if self.nbest > self.beam:
            raise ValueError(f"search.nbest={self.nbest} is more than search.beam={self.beam} can give")
        return self

    def max_length(self, source_tokens: int) -> int:
        """How many target tokens, the end included, a hypothesis may have."""
        return int(self.max_length_factor * source_tokens) + self.max_length_extra
