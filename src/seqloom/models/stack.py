"""What all Transformer shapes share: their options, and the encoder."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self, get_args

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.nn.blocks import Activation, BlockShape, EncoderBlock, NormName, NormPlace
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import FrameEmbedding, Tie
from seqloom.nn.longattention import (
    LONG_POSITIONS,
    BlockSparseAttention,
    LinformerAttention,
    LongAttentionName,
    WindowAttention,
)
from seqloom.nn.multihead import SelfAttention
from seqloom.nn.positions import InputPositions, PositionName
from seqloom.nn.syntax import TreeInput, tree_positions
from seqloom.settings import ModelSettings, Settings
from seqloom.types import Batch


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


class StackSettings(ModelSettings):
    """What every stack of attention blocks is made of, whatever its shape."""

    READS_TREES: ClassVar[bool] = False  # whether positions may be those of the source's dependency tree

    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 96, "layers": 2, "heads": 4, "ffn": 384},
        "small": {"width": 256, "layers": 3, "heads": 4, "ffn": 1024},
        "base": {"width": 512, "layers": 6, "heads": 8, "ffn": 2048},
    }

    width: int = Field(ge=2, description="of embeddings and blocks")
    layers: int = Field(
        ge=1, le=1000, description="blocks one above the other; of the encoder, and of the decoder"
    )
    heads: int = Field(ge=1, description="of every attention; divides the width unless their widths are given")
    qk_width: int | None = Field(None, ge=1, description="of a head's queries and keys; None = width / heads")
    v_width: int | None = Field(None, ge=1, description="of a head's values; None = width / heads")
    scaled: bool = Field(True, description="scores are divided by √qk_width")
    positions: PositionName = Field("sinusoidal", description=", ".join(get_args(PositionName)))
    max_length: int = Field(
        1024, ge=1, description="of learned positions, and of sources under linformer attention"
    )
    relative_distance: int = Field(16, ge=1, description="the longest that relative positions tell apart")
    ffn: int = Field(ge=1, description="inner width of the feed-forward blocks")
    activation: Activation = Field(
        "relu", description="of the feed-forward: relu, gelu, silu, swiglu; none = without it"
    )
    norm: NormName = Field("layer", description="layer or rms")
    norm_place: NormPlace = Field("before", description="of every block: before, after or none")
    residual: bool = Field(True, description="every block adds its input to its output")
    dropout: float = Field(0.1, ge=0, lt=1, description="after every block and inside feed-forward")
    tie: Tie = Field("auto", description="embeddings that share one matrix: all, target, none, auto")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.width % self.heads and (self.qk_width is None or self.v_width is None):
            raise ValueError(f"model.heads={self.heads} does not divide model.width={self.width}")
        if self.positions == "syntax" and not self.READS_TREES:
            raise ValueError(
                f"model.positions=syntax is for sources with a dependency tree, and {self.name} reads none; "
                "choose model.name=transformer or other positions"
            )
        if self.positions in ("sinusoidal", "syntax") and self.width % 2:
            raise ValueError(f"model.width={self.width} must be even: positions are pairs of sine and cosine")
        if self.positions == "rotary" and self.shape().qk_width % 2:
            raise ValueError(
                f"model.positions=rotary turns pairs of coordinates, so the {self.shape().qk_width} of a query "
                "must be even; set model.qk_width"
            )
        return self

    @property
    def reads_trees(self) -> bool:
        return self.positions == "syntax"

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


class WithEncoder(StackSettings):
    """A stack that reads a whole sequence, by full attention or by one whose cost grows slower."""

    encoder: EncoderSettings = Field(EncoderSettings.model_validate({}), description="its attention")

    @model_validator(mode="after")
    def _positions_fit_the_attention(self) -> Self:
        if self.encoder.attention != "full" and self.positions not in LONG_POSITIONS:
            raise ValueError(
                f"model.encoder.attention={self.encoder.attention} works with model.positions "
                f"{', '.join(LONG_POSITIONS)}, not with {self.positions}"
            )
        return self


class Encoder(nn.Module):
    """Reads a sequence; what stands above it, and the embeddings it takes, are those of the model it is in."""

    def __init__(self, settings: WithEncoder, embedding: nn.Embedding | FrameEmbedding) -> None:
        super().__init__()
        shape = settings.shape()
        self.width = settings.width
        self.source_embedding = embedding
        self.reads_trees = settings.reads_trees
        self.source_positions = (
            TreeInput(settings.width)
            if settings.reads_trees
            else InputPositions(settings.positions, settings.width, settings.max_length)
        )
        self.dropout = Dropout(settings.dropout)
        self.encoder = nn.ModuleList(
            EncoderBlock(shape, settings.encoder.kind(layer, settings.max_length))
            for layer in range(settings.layers)
        )
        self.encoder_norm = shape.final_norm()

    def embed(self, embedding: nn.Module, positions: nn.Module, ids: Tensor, *at: Tensor) -> Tensor:
        """√D e(id), or of frames √D e(frame), and what the positions add, (B, T, D)."""
        return self.dropout(positions(embedding(ids) * math.sqrt(self.width), *at))

    def encode(self, batch: Batch) -> Tensor:
        """The encoded source, (B, S, D)."""
        at = torch.arange(batch.source.shape[1], device=batch.source.device)
        tree = tree_positions(_heads(batch)) if self.reads_trees else None
        places = (at,) if tree is None else (at, tree.depth)
        x = self.embed(self.source_embedding, self.source_positions, batch.source, *places)
        mask = batch.source_mask
        for block in self.encoder:
            x = block(x, mask, None if tree is None else tree.relative)
        return self.encoder_norm(x)


def _heads(batch: Batch) -> Tensor:
    if batch.source_heads is None:
        raise SeqloomError(
            "The model reads the dependency tree of a source, and a source has none.",
            "name the column of heads (data.heads_column, --heads-column), or give a CoNLL-U file",
        )
    return batch.source_heads


def initialise(blocks: nn.Module) -> None:
    """Xavier's matrices (Glorot & Bengio 2010), biases of zero."""
    for name, weight in blocks.named_parameters():
        if weight.dim() == 2:
            nn.init.xavier_uniform_(weight)
        elif name.endswith("bias"):
            nn.init.zeros_(weight)
