"""The Transformer encoder-decoder (Vaswani et al. 2017), its parts named choices, and presets made of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.models.base import AutoregressiveModel
from seqloom.models.stack import Encoder, WithEncoder, initialise
from seqloom.nn.blocks import DecoderBlock
from seqloom.nn.embedding import embeddings_and_output
from seqloom.nn.positions import InputPositions
from seqloom.registry import register
from seqloom.types import Batch, Tree, Vocabularies


class TransformerSettings(WithEncoder):
    READS_TREES: ClassVar[bool] = True

    name: str = "transformer"
    decoder_layers: int | None = Field(None, ge=1, le=1000, description="of the decoder, if not the same")


@register(
    "transformer",
    summary="Encoder-decoder of self-attention and cross-attention, pre-norm, sinusoidal positions",
    paper="Vaswani et al. 2017, arXiv:1706.03762",
    settings=TransformerSettings,
)
class Transformer(Encoder, AutoregressiveModel):
    """p(y_t | y_<t, x) for all t at once while training, one t at a time with a cache while decoding."""

    def __init__(self, settings: TransformerSettings, vocabularies: Vocabularies) -> None:
        source, target, output = embeddings_and_output(vocabularies, settings.width, settings.tie)
        super().__init__(settings, source)
        shape = settings.shape()
        self.target_embedding, self.output = target, output
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
        """What the output layer sees at every target position under teacher forcing, (B, T, D)."""
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
        memory = (batch.source_mask, [block.cross.keep(source) for block in self._blocks()])
        return memory, (torch.zeros_like(batch.source_lengths), [None] * len(self.decoder))

    def step_hidden(self, memory: Tree, state: Tree, last: Tensor) -> tuple[Tensor, Tree, Tensor]:
        """What the output layer sees in a step (R, D), the new state, the attention."""
        source_mask, memories = memory
        position, pasts = state
        at = position.unsqueeze(1)  # (R, 1)
        x = self._embed_target(last.unsqueeze(1), at)  # (R, 1, D)
        grown, attention = [], []
        for block, past, remembered in zip(self._blocks(), pasts, memories, strict=True):
            x, past, weights = block.step(x, past, at, remembered, source_mask)
            grown.append(past)
            attention.append(weights)
        return self.decoder_norm(x[:, 0]), (position + 1, grown), torch.stack(attention, dim=1)


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
        "transformer-syntax",
        "Transformer that reads the dependency tree of the source: depths and distances in it",
        "Wang, Tu, Wang & Shi 2019, arXiv:1909.00383",
        {"positions": "syntax"},
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
