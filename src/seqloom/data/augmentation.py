"""Random changes of training batches: sampled subwords and word dropout.

They depend only on the seed and the position in the stream: each pass over the data draws others, and a resumed
run draws the same as an uninterrupted run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batching import Collate, Indices, Position, Row, collate_ids
from seqloom.data.mixture import SUBWORDS, WORDS
from seqloom.data.store import Tokens
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.text.sampling import SubwordSampler
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import UNK, Batch

_SEEDS = 2**32 - 1  # of SentencePiece, whose largest one stands for a random seed


class SubwordSampling:
    """Collator of batches with sampled segmentations; trees do not fit a sampled source and are left out."""

    def __init__(self, config: TextConfig, tokenizers: TokenizerPair, *, longest: int, seed: int) -> None:
        self._samplers: dict[str, SubwordSampler] = {
            side: SubwordSampler(tokenizers.text(side), config, longest) for side in config.sampled_sides
        }
        self._seed = seed

    def collate(self, tokens: Tokens, indices: Indices, position: Position) -> Batch:
        """Return the batch of these pairs with the segmentations of this position in the stream."""
        random = np.random.default_rng([self._seed, *position, SUBWORDS])
        seeds = {side: int(random.integers(_SEEDS)) for side in ("source", "target")}
        source, target = (
            self._rows(side, [row(i) for i in indices.tolist()], seeds[side])
            for side, row in (("source", tokens.source), ("target", tokens.target))
        )
        has_trees = "heads" in tokens.ids and "source" not in self._samplers
        heads = [tokens.heads(i).tolist() for i in indices.tolist()] if has_trees else None
        return collate_ids(source, target, indices.tolist(), heads)

    def _rows(self, side: str, rows: list[NDArray[Any]], seed: int) -> Sequence[Row]:
        sampler = self._samplers.get(side)
        return sampler([row.tolist() for row in rows], seed) if sampler else rows


class WordDropout:
    """Collator that replaces a fraction of all tokens by UNK, and of all frames by zeros.

    Sources and decoder inputs are changed, predicted tokens are not. Sennrich, Haddow & Birch (2016,
    arXiv:1606.02891) set the embedding to zero; here it is that of UNK, which is learned. Tags are kept, since
    they cannot be inferred from the rest of the source.
    """

    def __init__(
        self, make_batch: Collate[Batch], share: float, tokenizers: TokenizerPair, *, seed: int
    ) -> None:
        self._make_batch, self._share, self._seed = make_batch, share, seed
        self._source = None if tokenizers.frames else _droppable(tokenizers.source)
        self._target = _droppable(tokenizers.target)

    def collate(self, tokens: Tokens, indices: Indices, position: Position) -> Batch:
        """Return the batch with the dropped words of this position in the stream."""
        batch = self._make_batch(tokens, indices, position)
        assert batch.target_in is not None
        random = np.random.default_rng([self._seed, *position, WORDS])
        source = self._without_words(batch.source, self._source, random)
        target_in = self._without_words(batch.target_in, self._target, random)
        return replace(batch, source=source, target_in=target_in)

    def _without_words(self, ids: Tensor, droppable: Tensor | None, random: np.random.Generator) -> Tensor:
        """Return ids (B, T) with UNK, or frames (B, T, F) with zeros, at random positions."""
        drawn = torch.from_numpy(random.random(ids.shape[:2]) < self._share)
        if droppable is None:
            return ids.masked_fill(drawn.unsqueeze(2), 0)
        return ids.masked_fill(drawn & droppable[ids], UNK)


def _droppable(tokenizer: Tokenizer) -> Tensor:
    """Return a mask of the vocabulary (V,): False for special tokens and tags."""
    droppable = torch.arange(tokenizer.size) > UNK
    droppable[list(tokenizer.tags)] = False
    return droppable
