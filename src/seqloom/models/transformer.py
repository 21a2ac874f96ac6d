"""The Transformer encoder-decoder (Vaswani et al. 2017), its parts named choices, and presets made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.nn.blocks import Activation, BlockShape, DecoderBlock, EncoderBlock, NormName, NormPlace
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import Tie, embeddings_and_output
from seqloom.nn.longattention import (
    LONG_POSITIONS,
    BlockSparseAttention,
    LinformerAttention,
    LongAttentionName,
    WindowAttention,
)
from seqloom.nn.multihead import SelfAttention
from seqloom.nn.positions import InputPositions, PositionName
from seqloom.registry import register
from seqloom.settings import ModelSettings, Settings
from seqloom.types import Batch, Step, Tree, Vocabularies


class EncoderSettings(Settings):
    attention: LongAttentionName = Field("full", description="full, linformer, bigbird or window")
    window: int = Field(64, ge=0, description="window: positions that a position sees on each side")
    block: int = Field(64, ge=1, description="bigbird, window: positions in a block, the unit of computing")
    global_blocks: int = Field(1, ge=0, description="bigbird: first blocks, which see all and are seen by all")
    random_blocks: int = Field(2, ge=0, description="bigbird: blocks drawn for each block to see")
    rank: int = Field(64, ge=1, description="linformer: keys and values that are left of all")
    per_head: bool = Field(False, description="linformer: each head has a projection of its own")

    def kind(self, layer: int, max_length: int) -> Callable[..., SelfAttention]:
        """What makes the attention of a layer; each layer draws blocks of its own."""
        if self.attention == "linformer":
            return partial(LinformerAttention, rank=self.rank, max_length=max_length, per_head=self.per_head)
        if self.attention == "bigbird":
            return partial(
                BlockSparseAttention,
                block=self.block,
                global_blocks=self.global_blocks,
                random_blocks=self.random_blocks,
                seed=layer,
            )
        if self.attention == "window":
            return partial(WindowAttention, window=self.window, block=self.block)
        return SelfAttention


class TransformerSettings(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 96, "layers": 2, "heads": 4, "ffn": 384},
        "small": {"width": 256, "layers": 3, "heads": 4, "ffn": 1024},
        "base": {"width": 512, "layers": 6, "heads": 8, "ffn": 2048},
    }

    name: str = "transformer"
    width: int = Field(ge=2, description="of embeddings and blocks")
    layers: int = Field(ge=1, description="of the encoder, and of the decoder")
    decoder_layers: int | None = Field(None, ge=1, description="of the decoder, if not the same")
    heads: int = Field(ge=1, description="of every attention; divides the width unless their widths are given")
    qk_width: int | None = Field(None, ge=1, description="of a head's queries and keys; None = width / heads")
    v_width: int | None = Field(None, ge=1, description="of a head's values; None = width / heads")
    scaled: bool = Field(True, description="scores are divided by √qk_width")
    positions: PositionName = Field(
        "sinusoidal", description="none, sinusoidal, learned, relative, rotary, alibi or t5"
    )
    max_length: int = Field(
        1024, ge=1, description="of learned positions, and of sources under linformer attention"
    )
    relative_distance: int = Field(16, ge=1, description="the longest that relative positions tell apart")
    ffn: int = Field(ge=1, description="inner width of the feed-forward blocks")
    activation: Activation = Field(
        "relu", description="of the feed-forward: relu, gelu, swiglu; none = without it"
    )
    norm: NormName = Field("layer", description="layer or rms")
    norm_place: NormPlace = Field("before", description="of every block: before, after or none")
    residual: bool = Field(True, description="every block adds its input to its output")
    dropout: float = Field(0.1, ge=0, lt=1, description="after every block and inside feed-forward")
    tie: Tie = Field("auto", description="embeddings that share one matrix: all, target, none, auto")
    encoder: EncoderSettings = Field(EncoderSettings.model_validate({}), description="its attention")

    @model_validator(mode="after")
    def _fits_together(self) -> TransformerSettings:
        if self.width % self.heads and (self.qk_width is None or self.v_width is None):
            raise ValueError(f"model.heads={self.heads} does not divide model.width={self.width}")
        if self.positions == "sinusoidal" and self.width % 2:
            raise ValueError(f"model.width={self.width} must be even: positions are pairs of sine and cosine")
        if self.positions == "rotary" and self.shape().qk_width % 2:
            raise ValueError(
                f"model.positions=rotary turns pairs of coordinates, so the {self.shape().qk_width} of a query "
                "must be even; set model.qk_width"
            )
        if self.encoder.attention != "full" and self.positions not in LONG_POSITIONS:
            raise ValueError(
                f"model.encoder.attention={self.encoder.attention} works with model.positions "
                f"{', '.join(LONG_POSITIONS)}, not with {self.positions}"
            )
        return self

    def shape(self) -> BlockShape:
        """What all blocks share."""
        return BlockShape(
            width=self.width,
            heads=self.heads,
            qk_width=self.qk_width or self.width // self.heads,
            v_width=self.v_width or self.width // self.heads,
            ffn=self.ffn,
            dropout=self.dropout,
            activation=self.activation,
            norm=self.norm,
            norm_place=self.norm_place,
            residual=self.residual,
            scaled=self.scaled,
            positions=self.positions,
            clip=self.relative_distance,
        )


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
        width, shape = settings.width, settings.shape()
        self.width = width
        self.source_embedding, self.target_embedding, self.output = embeddings_and_output(
            vocabularies, width, settings.tie
        )
        self.source_positions = InputPositions(settings.positions, width, settings.max_length)
        self.target_positions = InputPositions(settings.positions, width, settings.max_length)
        self.dropout = Dropout(settings.dropout)
        self.encoder = nn.ModuleList(
            EncoderBlock(shape, settings.encoder.kind(layer, settings.max_length))
            for layer in range(settings.layers)
        )
        self.encoder_norm = shape.final_norm()
        self.decoder = nn.ModuleList(
            DecoderBlock(shape) for _ in range(settings.decoder_layers or settings.layers)
        )
        self.decoder_norm = shape.final_norm()
        for name, weight in (*self.encoder.named_parameters(), *self.decoder.named_parameters()):
            if weight.dim() == 2:
                nn.init.xavier_uniform_(weight)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def _embed_source(self, ids: Tensor, at: Tensor) -> Tensor:
        return self._embed(self.source_embedding, self.source_positions, ids, at)

    def _embed_target(self, ids: Tensor, at: Tensor) -> Tensor:
        return self._embed(self.target_embedding, self.target_positions, ids, at)

    def _embed(self, embedding: nn.Module, positions: nn.Module, ids: Tensor, at: Tensor) -> Tensor:
        """√D e(id) and what the positions add, (B, T, D)."""
        return self.dropout(positions(embedding(ids) * math.sqrt(self.width), at))

    def encode(self, batch: Batch) -> Tensor:
        """The encoded source, (B, S, D)."""
        at = torch.arange(batch.source.shape[1], device=batch.source.device)
        x = self._embed_source(batch.source, at)
        mask = batch.source_mask
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x)

    def hidden(self, batch: Batch) -> Tensor:
        """What the output layer sees at every target position under teacher forcing, (B, T, D)."""
        assert batch.target_in is not None
        source, mask = self.encode(batch), batch.source_mask
        at = torch.arange(batch.target_in.shape[1], device=batch.target_in.device)
        x = self._embed_target(batch.target_in, at)
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
        at = position.unsqueeze(1)  # (R, 1)
        x = self._embed_target(last.unsqueeze(1), at)  # (R, 1, D)
        grown, attention = [], []
        for block, past, remembered in zip(self._blocks(), pasts, memories, strict=True):
            x, past, weights = block.step(x, past, at, remembered, source_mask)
            grown.append(past)
            attention.append(weights.mean(dim=1))
        logits = self.output(self.decoder_norm(x[:, 0]))
        return Step(logits.log_softmax(-1), (position + 1, grown), torch.stack(attention).mean(dim=0))


for _name, _summary, _paper, _overrides in (
    (
        "transformer-postnorm",
        "Transformer as first published: normalised after each block",
        "Vaswani et al. 2017, arXiv:1706.03762",
        {"norm_place": "after"},
    ),
    (
        "transformer-relative",
        "Transformer with vectors for the distance between tokens in keys and values",
        "Shaw, Uszkoreit & Vaswani 2018, arXiv:1803.02155",
        {"positions": "relative"},
    ),
    (
        "transformer-rotary",
        "Transformer whose queries and keys are turned by their position",
        "Su et al. 2021, arXiv:2104.09864",
        {"positions": "rotary"},
    ),
    (
        "transformer-alibi",
        "Transformer whose scores fall with distance",
        "Press, Smith & Lewis 2022, arXiv:2108.12409",
        {"positions": "alibi"},
    ),
    (
        "transformer-linformer",
        "Transformer whose encoder projects all keys and values onto a few",
        "Wang et al. 2020, arXiv:2006.04768",
        {"encoder": {"attention": "linformer"}},
    ),
    (
        "transformer-bigbird",
        "Transformer whose encoder sees near, first and random blocks only",
        "Zaheer et al. 2020, arXiv:2007.14062",
        {"encoder": {"attention": "bigbird"}},
    ),
    (
        "transformer-deep",
        "Transformer of 24 layers of RMS norm and swiglu",
        "Wang et al. 2019, arXiv:1906.01787; Shazeer 2020, arXiv:2002.05202",
        {"layers": 24, "decoder_layers": 24, "norm": "rms", "activation": "swiglu"},
    ),
):
    register(_name, summary=_summary, paper=_paper, settings=TransformerSettings, overrides=_overrides)(
        Transformer
    )
