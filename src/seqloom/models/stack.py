"""Options and encoder shared by all Transformer architectures."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, Self, get_args

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.nn.attention import WeightsName
from seqloom.nn.blocks import Activation, BlockShape, EncoderBlock, NormName, NormPlace
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import FrameEmbedding, Tie
from seqloom.nn.longattention import (
    LONG_POSITIONS,
    BlockSparseAttention,
    CausalBlockAttention,
    CausalWindowAttention,
    LinformerAttention,
    LongAttentionName,
    WindowAttention,
)
from seqloom.nn.multihead import SelfAttention
from seqloom.nn.positions import InputPositions, PositionName, TagPositions
from seqloom.nn.prefix import PrefixAttention
from seqloom.nn.syntax import TreeInput, tree_positions
from seqloom.settings import ModelSettings, Settings
from seqloom.types import Batch


class LongAttentionSettings(Settings):
    """Options of attention for long inputs."""

    attention: LongAttentionName = Field(
        "full", description="attention: full, window, bigbird or, in encoders, linformer"
    )
    window: int = Field(
        64, ge=0, description="window: positions on each side that a position attends to (causal: before it)"
    )
    block: int = Field(64, ge=1, description="bigbird, window: positions per block, the unit of computation")
    global_blocks: int = Field(
        1, ge=0, description="bigbird: leading blocks that attend to all blocks and are attended to by all"
    )
    random_blocks: int = Field(
        2, ge=0, description="bigbird: random blocks, not visible otherwise, that each block attends to"
    )

    def _block_options(self, layer: int) -> dict[str, int]:
        """Return the options of a layer with blocks or a window; random blocks are drawn per layer."""
        if self.attention == "window":
            return {"window": self.window, "block": self.block}
        return {
            "block": self.block,
            "global_blocks": self.global_blocks,
            "random_blocks": self.random_blocks,
            "seed": layer,
        }


class DecoderSettings(LongAttentionSettings):
    """Attention of a decoder-only model."""

    @model_validator(mode="after")
    def _is_causal(self) -> Self:
        if self.attention == "linformer":
            raise ValueError(
                "model.decoder.attention=linformer mixes past and future tokens into each key, but a language "
                "model must not see the future; use full, window or bigbird"
            )
        return self

    def kind(self, layer: int) -> Callable[..., PrefixAttention]:
        """Return the constructor of a layer's attention."""
        kinds = {"window": CausalWindowAttention, "bigbird": CausalBlockAttention}
        if self.attention not in kinds:
            return PrefixAttention
        return partial(kinds[self.attention], **self._block_options(layer))


class EncoderSettings(LongAttentionSettings):
    """Attention of an encoder."""

    rank: int = Field(64, ge=1, description="linformer: number of projected keys and values")
    sharing: Literal["head", "layer", "model"] = Field(
        "layer", description="linformer: projections per head, per layer or for the whole model"
    )
    separate: bool = Field(
        False, description="linformer: separate projections of keys (E) and values (F); false: F = E"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_per_head(cls, given: object) -> object:
        """Accept `per_head`, the former name of `sharing=head`, in configurations of older runs."""
        if not isinstance(given, dict) or not isinstance(given.get("per_head"), bool):
            return given
        rest = {name: value for name, value in given.items() if name != "per_head"}
        return {"sharing": "head"} | rest if given["per_head"] else rest

    def kind(self, layer: int, max_length: int) -> Callable[..., SelfAttention]:
        """Return the constructor of a layer's attention."""
        if self.attention == "linformer":
            return partial(
                LinformerAttention,
                rank=self.rank,
                max_length=max_length,
                per_head=self.sharing == "head",
                separate=self.separate,
            )
        kinds = {"window": WindowAttention, "bigbird": BlockSparseAttention}
        if self.attention not in kinds:
            return SelfAttention
        return partial(kinds[self.attention], **self._block_options(layer))


class StackSettings(ModelSettings):
    """Options of every stack of attention blocks: encoder-decoder, encoder-only or decoder-only."""

    READS_TREES: ClassVar[bool] = False  # whether positions=syntax is supported

    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 96, "layers": 2, "heads": 4, "ffn": 384},
        "small": {"width": 256, "layers": 3, "heads": 4, "ffn": 1024},
        "base": {"width": 512, "layers": 6, "heads": 8, "ffn": 2048},
    }

    width: int = Field(ge=2, description="width of embeddings and blocks")
    layers: int = Field(ge=1, le=1000, description="number of encoder blocks, and of decoder blocks")
    heads: int = Field(
        ge=1, description="attention heads; must divide width unless qk_width and v_width are set"
    )
    qk_width: int | None = Field(
        None, ge=1, description="width of queries and keys per head; None = width / heads"
    )
    v_width: int | None = Field(None, ge=1, description="width of values per head; None = width / heads")
    scaled: bool = Field(True, description="divide attention scores by √qk_width")
    attention_bias: bool = Field(True, description="biases of queries, keys, values and attention outputs")
    attention_weights: WeightsName = Field(
        "softmax", description="attention weights: softmax of the scores, or raw (the scores themselves)"
    )
    positions: PositionName = Field(
        "sinusoidal", description=f"position encoding: {', '.join(get_args(PositionName))}"
    )
    max_length: int = Field(
        1024, ge=1, description="number of learned positions, and maximum source length with linformer"
    )
    relative_distance: int = Field(16, ge=1, description="largest distance that relative positions distinguish")
    ffn: int = Field(ge=1, description="inner width of the feed-forward layers")
    activation: Activation = Field(
        "relu", description="feed-forward activation: relu, gelu, silu or swiglu; none = no feed-forward layers"
    )
    norm: NormName = Field("layer", description="normalisation: layer or rms")
    norm_place: NormPlace = Field("before", description="norm placement: before or after every block, or none")
    residual: bool = Field(True, description="residual connections around attention and feed-forward layers")
    dropout: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="dropout after attention and feed-forward layers and inside feed-forward layers",
    )
    tie: Tie = Field(
        "auto", description="weight tying of embeddings and output layer: all, target, none or auto"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.width % self.heads and (self.qk_width is None or self.v_width is None):
            raise ValueError(f"model.heads={self.heads} does not divide model.width={self.width}")
        if self.positions == "syntax" and not self.READS_TREES:
            raise ValueError(
                f"model.positions=syntax is not supported by {self.name}, which reads no dependency trees; "
                "use model.name=transformer or other positions"
            )
        if self.positions in ("sinusoidal", "syntax") and self.width % 2:
            raise ValueError(
                f"model.width={self.width} must be even: positions are pairs of a sine and a cosine"
            )
        if self.positions == "rotary" and self.shape().qk_width % 2:
            raise ValueError(
                f"model.positions=rotary needs an even query width, got {self.shape().qk_width}; "
                "set model.qk_width"
            )
        if self.attention_weights == "raw" and self.positions not in LONG_POSITIONS:
            raise ValueError(
                f"model.attention_weights=raw supports model.positions {', '.join(LONG_POSITIONS)}, "
                f"not {self.positions}, which adds a bias to the scores"
            )
        return self

    @property
    def reads_trees(self) -> bool:
        return self.positions == "syntax"

    def shape(self) -> BlockShape:
        """Return the sizes and options of the blocks."""
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
            attention_bias=self.attention_bias,
            attention_weights=self.attention_weights,
            positions=self.positions,
            clip=self.relative_distance,
        )


class EncoderStackSettings(StackSettings):
    """Options of a stack with an encoder, which has full attention or one for long inputs."""

    encoder: EncoderSettings = Field(EncoderSettings.model_validate({}), description="encoder attention")

    @model_validator(mode="after")
    def _positions_fit_the_attention(self) -> Self:
        if self.encoder.attention != "full" and self.attention_weights == "raw":
            raise ValueError(
                f"model.attention_weights=raw needs model.encoder.attention=full, not {self.encoder.attention}"
            )
        if self.encoder.attention != "full" and self.positions not in LONG_POSITIONS:
            raise ValueError(
                f"model.encoder.attention={self.encoder.attention} supports model.positions "
                f"{', '.join(LONG_POSITIONS)}, not {self.positions}"
            )
        return self


class Encoder(nn.Module):
    """Transformer encoder, a base class of the models that have one.

    Positions count from 0, unless `tag_positions` gives all leading tags the same position.
    """

    def __init__(
        self,
        settings: EncoderStackSettings,
        embedding: nn.Embedding | FrameEmbedding,
        tag_positions: TagPositions | None = None,
    ) -> None:
        super().__init__()
        shape = settings.shape()
        self.tag_positions = tag_positions
        self.width = settings.width
        self.source_embedding = embedding
        self.reads_trees = settings.reads_trees
        rows = settings.max_length + (0 if tag_positions is None else 1)  # one more, shared by all tags
        self.source_positions = (
            TreeInput(settings.width)
            if settings.reads_trees
            else InputPositions(settings.positions, settings.width, rows)
        )
        self.dropout = Dropout(settings.dropout)
        self.encoder = nn.ModuleList(
            EncoderBlock(shape, settings.encoder.kind(layer, settings.max_length))
            for layer in range(settings.layers)
        )
        if settings.encoder.sharing == "model":
            layers = [part for part in self.encoder.modules() if isinstance(part, LinformerAttention)]
            for layer in layers[1:]:
                layer.share_projections(layers[0])
        self.encoder_norm = shape.final_norm()

    def embed(self, embedding: nn.Module, positions: nn.Module, ids: Tensor, *at: Tensor) -> Tensor:
        """Return √D e(id), or √D e(frame) for frames, plus the positions, (B, T, D)."""
        return self.dropout(positions(embedding(ids) * math.sqrt(self.width), *at))

    def encode(self, batch: Batch) -> Tensor:
        """Return the encoded source, (B, S, D)."""
        at = torch.arange(batch.source.shape[1], device=batch.source.device)
        if self.tag_positions is not None:
            at = self.tag_positions(batch.source)
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
            "The model needs a dependency tree for every source, but a source has none.",
            "set the column of heads (data.heads_column, --heads-column), or use a CoNLL-U file",
        )
    return batch.source_heads


def initialise(blocks: nn.Module) -> None:
    """Initialise matrices by Xavier's rule (Glorot & Bengio 2010) and biases to zero."""
    for name, weight in blocks.named_parameters():
        if weight.dim() == 2:
            nn.init.xavier_uniform_(weight)
        elif name.endswith("bias"):
            nn.init.zeros_(weight)
