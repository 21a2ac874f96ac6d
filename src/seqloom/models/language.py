"""Decoder-only language models: of text, or of targets with the source as prefix."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.models.base import AutoregressiveModel
from seqloom.models.stack import DecoderSettings, StackSettings, initialise
from seqloom.nn.blocks import LanguageBlock
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import embeddings_and_output
from seqloom.nn.longattention import LONG_POSITIONS
from seqloom.nn.masks import prefix_mask
from seqloom.nn.positions import InputPositions
from seqloom.registry import CONTINUE, register
from seqloom.types import Batch, Tree, Vocabularies


class LanguageModelSettings(StackSettings):
    name: str = "lm"
    prefix: Literal["causal", "both"] = Field(
        "causal", description="attention inside the source prefix: causal (left to right), or both directions"
    )
    decoder: DecoderSettings = Field(DecoderSettings.model_validate({}), description="attention")

    @model_validator(mode="after")
    def _supports_the_attention(self) -> Self:
        kind = self.decoder.attention
        if kind == "full":
            return self
        if self.prefix == "both":
            raise ValueError(
                f"model.decoder.attention={kind} is causal, but model.prefix=both reads the source in both "
                "directions; use model.prefix=causal (model.name=lm) or model.decoder.attention=full"
            )
        if self.positions not in LONG_POSITIONS:
            raise ValueError(
                f"model.decoder.attention={kind} supports model.positions {', '.join(LONG_POSITIONS)}, "
                f"not {self.positions}"
            )
        if self.attention_weights == "raw":
            raise ValueError(f"model.attention_weights=raw needs model.decoder.attention=full, not {kind}")
        return self


@register(
    "lm",
    summary="Decoder-only language model for text, or for pairs with the source as prefix",
    paper="Radford et al. 2018; Liu et al. 2018, arXiv:1801.10198",
    settings=LanguageModelSettings,
    task=CONTINUE,
)
class LanguageModel(AutoregressiveModel):
    """p(y_t | x, y_<t) by one stack over the sequence x y; for plain text, x is EOS only."""

    def __init__(self, settings: LanguageModelSettings, vocabularies: Vocabularies) -> None:
        super().__init__()
        shape = settings.shape()
        self.width, self.both = settings.width, settings.prefix == "both"
        self.attention_weights = settings.attention_weights
        self.source_embedding, self.target_embedding, self.output = embeddings_and_output(
            vocabularies, settings.width, settings.tie
        )
        self.target_positions = InputPositions(settings.positions, settings.width, settings.max_length)
        self.dropout = Dropout(settings.dropout)
        self.decoder = nn.ModuleList(
            LanguageBlock(shape, causal=not self.both, kind=settings.decoder.kind(layer))
            for layer in range(settings.layers)
        )
        self.decoder_norm = shape.final_norm()
        initialise(self.decoder)

    def _add_positions(self, x: Tensor, at: Tensor) -> Tensor:
        """Return √D e(id) plus the positions, (B, T, D)."""
        return self.dropout(self.target_positions(x * math.sqrt(self.width), at))

    def _mask(self, lengths: Tensor, width: int) -> Tensor | None:
        """Return the attention mask; None is the causal mask, for which the fused kernel has a fast path."""
        return prefix_mask(lengths, width) if self.both else None

    def hidden(self, batch: Batch) -> Tensor:
        """Return the inputs of the output layer at all target positions under teacher forcing, (B, T, D)."""
        assert batch.target_in is not None
        source, target = self.source_embedding(batch.source), self.target_embedding(batch.target_in)
        row = torch.cat((source, target), dim=1)
        at = torch.arange(row.shape[1], device=row.device)
        # Row b is x, directly followed by y, then the padding of both: no gap between them.
        lengths = batch.source_lengths.unsqueeze(1)
        target_index = (source.shape[1] + at - lengths).clamp_max(row.shape[1] - 1)
        x = self._add_positions(_take(row, torch.where(at < lengths, at, target_index)), at)
        mask = self._mask(batch.source_lengths, row.shape[1])
        for block in self.decoder:
            x = block(x, mask)
        return _take(self.decoder_norm(x), lengths + at[: target.shape[1]])

    def _blocks(self) -> Iterable[LanguageBlock]:
        return cast(Iterable[LanguageBlock], self.decoder)

    def max_target_length(self, source_length: int) -> int | None:
        """Return the number of positions left after the source, or None if there is no limit."""
        rows = self.target_positions.rows
        return None if rows is None else max(1, rows - source_length)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        at = torch.arange(batch.source.shape[1], device=batch.source.device)
        x = self._add_positions(self.source_embedding(batch.source), at)
        mask, memories = self._mask(batch.source_lengths, len(at)), []
        for block in self._blocks():
            memories.append(block.project_kv(x))
            x = block(x, mask)
        return (batch.source_mask, memories), (torch.zeros_like(batch.source_lengths), [None] * len(memories))

    def step_hidden(self, memory: Tree, state: Tree, last: Tensor) -> tuple[Tensor, Tree, Tensor]:
        """Return the input of the output layer (R, D), the new state and the attention."""
        real, memories = memory
        since, past_caches = state
        lengths = real.sum(dim=1).repeat_interleave(len(last) // len(real))
        x = self._add_positions(
            self.target_embedding(last.unsqueeze(1)), (lengths + since).unsqueeze(1)
        )  # (R, 1, D)
        caches, attention = [], []
        for block, past, prefix in zip(self._blocks(), past_caches, memories, strict=True):
            x, past, weights = block.step(x, prefix, real, past, since.unsqueeze(1))
            caches.append(past)
            attention.append(weights)
        return self.decoder_norm(x[:, 0]), (since + 1, caches), torch.stack(attention, dim=1)


def _take(x: Tensor, positions: Tensor) -> Tensor:
    """Return the vectors of x (B, L, D) at the given positions (B, T), (B, T, D)."""
    return x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


register(
    "prefix-lm",
    summary="Language model for pairs, with bidirectional attention inside the source",
    paper="Dong et al. 2019, arXiv:1905.03197; Raffel et al. 2020, arXiv:1910.10683",
    settings=LanguageModelSettings,
    overrides={"prefix": "both"},
    task=CONTINUE,
)(LanguageModel)
