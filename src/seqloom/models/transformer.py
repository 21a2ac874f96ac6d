"""The Transformer encoder-decoder (Vaswani et al. 2017), normalised before each block."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.nn.blocks import DecoderBlock, EncoderBlock
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import Tie, embeddings_and_output
from seqloom.nn.positions import sinusoids
from seqloom.registry import register
from seqloom.settings import ModelSettings
from seqloom.types import Batch, Step, Tree, Vocabularies


class TransformerSettings(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 96, "layers": 2, "heads": 4, "ffn": 384},
        "small": {"width": 256, "layers": 3, "heads": 4, "ffn": 1024},
        "base": {"width": 512, "layers": 6, "heads": 8, "ffn": 2048},
    }

    name: Literal["transformer"] = "transformer"
    width: int = Field(ge=2, description="of embeddings and blocks")
    layers: int = Field(ge=1, description="of the encoder, and of the decoder")
    decoder_layers: int | None = Field(None, ge=1, description="of the decoder, if not the same")
    heads: int = Field(ge=1, description="of every attention; divides the width")
    ffn: int = Field(ge=1, description="inner width of the feed-forward blocks")
    dropout: float = Field(0.1, ge=0, lt=1, description="after every block and inside feed-forward")
    tie: Tie = Field("auto", description="embeddings that share one matrix: all, target, none, auto")

    @model_validator(mode="after")
    def _heads_divide_width(self) -> TransformerSettings:
        if self.width % self.heads:
            raise ValueError(f"model.heads={self.heads} does not divide model.width={self.width}")
        if self.width % 2:
            raise ValueError(f"model.width={self.width} must be even: positions are pairs of sine and cosine")
        return self


@register(
    "transformer",
    summary="Encoder-decoder of self-attention and cross-attention, pre-norm, sinusoidal positions",
    paper="Vaswani et al. 2017, arXiv:1706.03762",
    settings=TransformerSettings,
)
class Transformer(nn.Module):
    """p(y_t | y_<t, x) for all t at once while training, one t at a time with a cache while decoding."""

    def __init__(self, settings: TransformerSettings, vocabularies: Vocabularies) -> None:
        super().__init__()
        width, heads, ffn, dropout = settings.width, settings.heads, settings.ffn, settings.dropout
        self.source_embedding, self.target_embedding, self.output = embeddings_and_output(
            vocabularies, width, settings.tie
        )
        self.dropout = Dropout(dropout)
        self.encoder = nn.ModuleList(EncoderBlock(width, heads, ffn, dropout) for _ in range(settings.layers))
        self.encoder_norm = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(
            DecoderBlock(width, heads, ffn, dropout) for _ in range(settings.decoder_layers or settings.layers)
        )
        self.decoder_norm = nn.LayerNorm(width)
        for name, weight in (*self.encoder.named_parameters(), *self.decoder.named_parameters()):
            if weight.dim() == 2:
                nn.init.xavier_uniform_(weight)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def _embed(self, embedding: nn.Module, ids: Tensor, positions: Tensor) -> Tensor:
        """√D e(id) + PE(position), (B, T, D)."""
        width = self.encoder_norm.normalized_shape[0]
        embedded = embedding(ids) * math.sqrt(width)
        return self.dropout(embedded + sinusoids(positions, width).to(embedded.dtype))

    def encode(self, batch: Batch) -> Tensor:
        """The encoded source, (B, S, D)."""
        positions = torch.arange(batch.source.shape[1], device=batch.source.device)
        x = self._embed(self.source_embedding, batch.source, positions)
        mask = batch.source_mask
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x)

    def hidden(self, batch: Batch) -> Tensor:
        """What the output layer sees at every target position under teacher forcing, (B, T, D)."""
        assert batch.target_in is not None
        source, mask = self.encode(batch), batch.source_mask
        positions = torch.arange(batch.target_in.shape[1], device=batch.target_in.device)
        x = self._embed(self.target_embedding, batch.target_in, positions)
        for block in self.decoder:
            x = block(x, source, mask)
        return self.decoder_norm(x)

    def forward(self, batch: Batch) -> Tensor:
        """Logits, (B, T, V)."""
        return self.output(self.hidden(batch))

    def _blocks(self) -> Iterable[DecoderBlock]:
        return cast(Iterable[DecoderBlock], self.decoder)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        source = self.encode(batch)
        memory = (batch.source_mask, [block.cross.remember(source) for block in self._blocks()])
        return memory, (torch.zeros_like(batch.source_lengths), [None] * len(self.decoder))

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        source_mask, memories = memory
        position, pasts = state
        x = self._embed(self.target_embedding, last.unsqueeze(1), position.unsqueeze(1))  # (R, 1, D)
        grown, attention = [], []
        for block, past, remembered in zip(self._blocks(), pasts, memories, strict=True):
            x, past, weights = block.step(x, past, remembered, source_mask)
            grown.append(past)
            attention.append(weights.mean(dim=1))
        logits = self.output(self.decoder_norm(x[:, 0]))
        return Step(logits.log_softmax(-1), (position + 1, grown), torch.stack(attention).mean(dim=0))
