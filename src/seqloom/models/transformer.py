"""Transformer encoder-decoder (Vaswani et al. 2017), configurable, and presets of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.models.base import AutoregressiveModel
from seqloom.models.stack import Encoder, EncoderStackSettings, initialise
from seqloom.nn.blocks import DecoderBlock
from seqloom.nn.embedding import embeddings_and_output
from seqloom.nn.positions import InputPositions, TagPositions
from seqloom.registry import register
from seqloom.types import Batch, Tree, Vocabularies

_INPUT_POSITIONS = ("sinusoidal", "learned")  # positions that are added to the input


class TransformerSettings(EncoderStackSettings):
    READS_TREES: ClassVar[bool] = True

    name: str = "transformer"
    decoder_layers: int | None = Field(
        None, ge=1, le=1000, description="number of decoder blocks; None = layers"
    )
    tag_positions: bool = Field(
        True, description="false: tags at the beginning of a source have position 0, other tokens 1, 2, ..."
    )

    @model_validator(mode="after")
    def _tags_can_share_a_position(self) -> Self:
        if not self.tag_positions and self.positions not in _INPUT_POSITIONS:
            raise ValueError(
                f"model.tag_positions=false supports model.positions {', '.join(_INPUT_POSITIONS)}, "
                f"not {self.positions}"
            )
        return self

    def tags(self, vocabularies: Vocabularies) -> TagPositions | None:
        """Return the positions of sources whose tags have none, if this is chosen."""
        return None if self.tag_positions else TagPositions(vocabularies.source, vocabularies.tags)


@register(
    "transformer",
    summary="Transformer encoder-decoder with pre-norm and sinusoidal positions",
    paper="Vaswani et al. 2017, arXiv:1706.03762",
    settings=TransformerSettings,
)
class Transformer(Encoder, AutoregressiveModel):
    """p(y_t | y_<t, x) for all t at once in training, one t at a time with a cache in decoding."""

    def __init__(self, settings: TransformerSettings, vocabularies: Vocabularies) -> None:
        source, target, output = embeddings_and_output(vocabularies, settings.width, settings.tie)
        super().__init__(settings, source, settings.tags(vocabularies))
        shape = settings.shape()
        self.target_embedding, self.output = target, output
        self.attention_weights = settings.attention_weights
        self.target_positions = InputPositions(settings.positions, settings.width, settings.max_length)
        self.decoder = nn.ModuleList(
            DecoderBlock(shape) for _ in range(settings.decoder_layers or settings.layers)
        )
        self.decoder_norm = shape.final_norm()
        initialise(self.encoder)
        initialise(self.decoder)

    def _embed_target(self, ids: Tensor, at: Tensor) -> Tensor:
        return self.embed(self.target_embedding, self.target_positions, ids, at)

    def hidden(self, batch: Batch) -> Tensor:
        """Return the inputs of the output layer at all target positions under teacher forcing, (B, T, D)."""
        assert batch.target_in is not None
        source, mask = self.encode(batch), batch.source_mask
        at = torch.arange(batch.target_in.shape[1], device=batch.target_in.device)
        x = self._embed_target(batch.target_in, at)
        for block in self.decoder:
            x = block(x, source, mask)
        return self.decoder_norm(x)

    def _blocks(self) -> Iterable[DecoderBlock]:
        return cast(Iterable[DecoderBlock], self.decoder)

    def max_target_length(self, source_length: int) -> int | None:
        """Return the number of target positions, or None if there is no limit."""
        return self.target_positions.rows

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        source = self.encode(batch)
        memory = (batch.source_mask, [block.cross.project_kv_contiguous(source) for block in self._blocks()])
        return memory, (torch.zeros_like(batch.source_lengths), [None] * len(self.decoder))

    def step_hidden(self, memory: Tree, state: Tree, last: Tensor) -> tuple[Tensor, Tree, Tensor]:
        """Return the input of the output layer (R, D), the new state and the attention."""
        source_mask, memories = memory
        position, past_caches = state
        at = position.unsqueeze(1)  # (R, 1)
        x = self._embed_target(last.unsqueeze(1), at)  # (R, 1, D)
        caches, attention = [], []
        for block, past, keys_values in zip(self._blocks(), past_caches, memories, strict=True):
            x, past, weights = block.step(x, past, at, keys_values, source_mask)
            caches.append(past)
            attention.append(weights)
        return self.decoder_norm(x[:, 0]), (position + 1, caches), torch.stack(attention, dim=1)


for _name, _summary, _paper, _overrides in (
    (
        "transformer-postnorm",
        "Transformer as first published, with post-norm",
        "Vaswani et al. 2017, arXiv:1706.03762",
        {"norm_place": "after"},
    ),
    (
        "transformer-relative",
        "Transformer with relative positions: vectors for the distance added to keys and values",
        "Shaw, Uszkoreit & Vaswani 2018, arXiv:1803.02155",
        {"positions": "relative"},
    ),
    (
        "transformer-rotary",
        "Transformer with rotary positions in queries and keys",
        "Su et al. 2021, arXiv:2104.09864",
        {"positions": "rotary"},
    ),
    (
        "transformer-alibi",
        "Transformer whose attention scores decrease linearly with distance",
        "Press, Smith & Lewis 2022, arXiv:2108.12409",
        {"positions": "alibi"},
    ),
    (
        "transformer-syntax",
        "Transformer with positions from the dependency tree of the source",
        "Wang, Tu, Wang & Shi 2019, arXiv:1909.00383",
        {"positions": "syntax"},
    ),
    (
        "transformer-linformer",
        "Transformer whose encoder projects keys and values to a fixed number",
        "Wang et al. 2020, arXiv:2006.04768",
        {"encoder": {"attention": "linformer"}},
    ),
    (
        "transformer-bigbird",
        "Transformer whose encoder attends to neighbouring, leading and random blocks only",
        "Zaheer et al. 2020, arXiv:2007.14062",
        {"encoder": {"attention": "bigbird"}},
    ),
    (
        "transformer-fast",
        "Transformer with 6 encoder layers and 1 decoder layer, which decodes fast",
        "Kasai et al. 2021, arXiv:2006.10369; Kim et al. 2019, aclanthology.org/D19-5632",
        {"layers": 6, "decoder_layers": 1},
    ),
    (
        "transformer-deep",
        "Transformer with 24 layers, RMS norm and SwiGLU",
        "Wang et al. 2019, arXiv:1906.01787; Shazeer 2020, arXiv:2002.05202",
        {"layers": 24, "decoder_layers": 24, "norm": "rms", "activation": "swiglu"},
    ),
):
    register(_name, summary=_summary, paper=_paper, settings=TransformerSettings, overrides=_overrides)(
        Transformer
    )
