"""Untrained models and random batches for experiments that need no training."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from seqloom.models.base import SequenceModel
from seqloom.models.recurrent import Recurrent
from seqloom.nn.blocks import BlockShape, LanguageBlock
from seqloom.nn.cells import RecurrentLayer
from seqloom.registry import architecture
from seqloom.run.build import build_neural
from seqloom.types import BOS, EOS, UNK, Batch, Vocabularies


def untrained_model(name: str, *, vocabulary: int, seed: int, **settings: object) -> SequenceModel:
    """Return a model with random weights that depend on the seed only, in evaluation mode."""
    entry = architecture(name)
    values = {"name": name, "size": "tiny", "dropout": 0.0, **entry.overrides, **settings}
    torch.manual_seed(seed)
    chosen = entry.settings.checked(values, "model", where="the lab")
    return build_neural(chosen, Vocabularies(vocabulary, vocabulary, shared=True)).eval()


def recurrent_matrix(model: SequenceModel) -> Tensor:
    """Return W of a recurrent decoder with one layer, (D, D)."""
    (layer,) = cast("list[RecurrentLayer]", list(cast(Recurrent, model).decoder.layers))
    return layer.weights().hidden


class MaskedDecoder(nn.Module):
    """Decoder-only Transformer whose mask is an argument."""

    def __init__(self, vocabulary: int, *, width: int, layers: int) -> None:
        super().__init__()
        head = width // 4
        shape = BlockShape(width, 4, head, head, ffn=2 * width, dropout=0.0, positions="rotary")
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LanguageBlock(shape, causal=True) for _ in range(layers))
        self.norm = shape.final_norm()
        self.output = nn.Linear(width, vocabulary)

    def hidden(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """Return (B, T, D). mask (B, 1, T, T): which keys each query attends to; None: causal."""
        x: Tensor = self.embedding(ids)
        for block in self.blocks:
            x = block(x, mask)
        normed: Tensor = self.norm(x)
        return normed

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """Return the logits (B, T, V)."""
        logits: Tensor = self.output(self.hidden(ids, mask))
        return logits


def random_batch(
    *, sentences: int, source_length: int, target_length: int, vocabulary: int, seed: int
) -> Batch:
    """Return pairs of random ids; lengths include EOS, and no row has padding."""
    random = torch.Generator().manual_seed(seed)
    end = torch.full((sentences, 1), EOS)
    source = torch.randint(UNK + 1, vocabulary, (sentences, source_length - 1), generator=random)
    target = torch.randint(UNK + 1, vocabulary, (sentences, target_length - 1), generator=random)
    return Batch(
        source=torch.cat((source, end), dim=1),
        source_lengths=torch.full((sentences,), source_length),
        index=torch.arange(sentences),
        target_in=torch.cat((torch.full((sentences, 1), BOS), target), dim=1),
        target_out=torch.cat((target, end), dim=1),
        target_lengths=torch.full((sentences,), target_length),
        target_tokens=sentences * target_length,
    )
