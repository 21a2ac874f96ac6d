"""Noise for denoising models: batches of texts with hidden tokens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.batching import Indices, Position, Rows, batch_of, gather, with_eos
from seqloom.data.config import NoiseConfig
from seqloom.data.store import Tokens
from seqloom.types import PAD, UNK, Batch

Flags = NDArray[np.bool_]


class Noise:
    """Collator of batches whose source is a text with hidden tokens.

    The hidden tokens depend only on the seed and the position in the stream: each pass over the data hides
    other tokens, and a resumed run hides the same ones as an uninterrupted run.
    """

    def __init__(self, config: NoiseConfig, *, mask: int, vocabulary: int, seed: int, in_place: bool) -> None:
        self._config, self._mask, self._vocabulary, self._seed = config, mask, vocabulary, seed
        self._in_place = in_place  # True: one target per hidden token; False: the target is the entire text

    def collate(self, tokens: Tokens, indices: Indices, position: Position) -> Batch:
        """Return the batch of these texts with the noise of this position in the stream."""
        random = np.random.default_rng([self._seed, *position])
        text = gather(tokens, "target", indices)
        if self._config.kind == "infill":
            return batch_of(self._infilled(text, random), text, indices)
        hidden = choose(text.lengths, self._config.share, random)
        source = Rows(self._replaced(text.ids, hidden, random), text.lengths)
        return (
            self._aligned(source, text, hidden, indices) if self._in_place else batch_of(source, text, indices)
        )

    def _replaced(self, ids: NDArray[Any], hidden: Flags, random: np.random.Generator) -> NDArray[Any]:
        """Keep some of the hidden ids, replace some by random ids and most by [MASK].

        Devlin et al. (2019) use 10, 10 and 80 %. The model cannot know which tokens are correct, so it has to
        represent every one of them.
        """
        fate = random.random(len(ids))
        keep, swap = self._config.keep, self._config.keep + self._config.random
        drawn = random.integers(UNK + 1, self._vocabulary - 1, len(ids))
        drawn += drawn >= self._mask  # any token except [MASK]
        replaced = np.where(fate < swap, drawn, self._mask)
        return np.where(hidden & (fate >= keep), replaced, ids)

    def _infilled(self, text: Rows, random: np.random.Generator) -> Rows:
        """Replace each hidden span by one [MASK], whatever its length (Lewis et al. 2020)."""
        row = np.repeat(np.arange(len(text.lengths)), text.lengths)
        hidden = spans(text.lengths, self._config.share, self._config.span, random)
        continues = hidden & np.roll(hidden, 1) & (row == np.roll(row, 1))
        continues[:1] = False
        ids = np.where(hidden, self._mask, text.ids)[~continues]
        return Rows(ids, np.bincount(row[~continues], minlength=len(text.lengths)))

    def _aligned(self, source: Rows, text: Rows, hidden: Flags, indices: Indices) -> Batch:
        """Return the batch whose target is the true token at hidden positions, and PAD (no loss) elsewhere."""
        ids, lengths = with_eos(source)
        target = torch.full_like(ids, PAD)
        column = np.arange(len(hidden)) - np.repeat(np.cumsum(text.lengths) - text.lengths, text.lengths)
        row = np.repeat(np.arange(len(text.lengths)), text.lengths)
        target[row[hidden], column[hidden]] = torch.from_numpy(text.ids[hidden].astype(np.int64))
        return Batch(
            source=ids,
            source_lengths=lengths,
            index=torch.from_numpy(indices),
            target_out=target,
            target_lengths=lengths,
            target_tokens=int(hidden.sum()),
        )


def choose(lengths: Indices, share: float, random: np.random.Generator) -> Flags:
    """Draw this fraction of the positions of each row uniformly, at least one per row."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((random.random(len(row)), row))  # shuffled within each row
    rank = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    counts = np.maximum(1, np.rint(share * lengths)).astype(np.int64)
    chosen = np.empty(len(row), np.bool_)
    chosen[order] = rank < counts[row]
    return chosen


def spans(lengths: Indices, share: float, span: float, random: np.random.Generator) -> Flags:
    """Draw about this fraction of all positions in spans of this mean length, at least one per row.

    Spans that begin at a rate r overlap, and leave exp(-r · length) uncovered, so r = -log(1 - share) / length.
    In short rows, the minimum of one span increases the fraction, and truncation at the end decreases it.
    """
    ends = np.cumsum(lengths)
    row = np.repeat(np.arange(len(lengths)), lengths)
    begins = random.random(len(row)) < -math.log(max(1 - share, 1e-9)) / span
    first = ends - lengths + (random.random(len(lengths)) * lengths).astype(np.int64)
    without = (np.bincount(row, begins, minlength=len(lengths)) == 0) & (lengths > 0)
    begins[first[without]] = True
    starts = np.flatnonzero(begins)
    stops = np.minimum(starts + 1 + random.poisson(span - 1, len(starts)), ends[row[starts]])
    change = np.zeros(len(row) + 1, np.int64)
    np.add.at(change, starts, 1)
    np.add.at(change, stops, -1)
    return np.cumsum(change[:-1]) > 0
