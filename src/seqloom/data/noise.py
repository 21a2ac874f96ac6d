"""Texts with parts hidden, for models that learn to restore them."""

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
    """Makes batches whose source is a text with tokens hidden.

    What is hidden depends on the seed and the place in the stream alone: every pass over the data hides other
    tokens, and a resumed run the same as one that never stopped.
    """

    def __init__(self, config: NoiseConfig, *, mask: int, vocabulary: int, seed: int, in_place: bool) -> None:
        self._config, self._mask, self._vocabulary, self._seed = config, mask, vocabulary, seed
        self._in_place = (
            in_place  # True: a target token for every hidden one; False: the target is all the text
        )

    def collate(self, tokens: Tokens, indices: Indices, place: Position) -> Batch:
        """The batch of these texts as they are hidden at this place in the stream."""
        random = np.random.default_rng([self._seed, *place])
        text = gather(tokens, "target", indices)
        if self._config.kind == "infill":
            return batch_of(self._infilled(text, random), text, indices)
        hidden = choose(text.lengths, self._config.share, random)
        source = Rows(self._replaced(text.ids, hidden, random), text.lengths)
        return (
            self._aligned(source, text, hidden, indices) if self._in_place else batch_of(source, text, indices)
        )

    def _replaced(self, ids: NDArray[Any], hidden: Flags, random: np.random.Generator) -> NDArray[Any]:
        """Of the hidden some are kept, some any other token, most [MASK] (10, 10, 80 %: Devlin et al. 2019).

        The model cannot know which of the tokens before it are true, so it has to weigh every one of them.
        """
        fate = random.random(len(ids))
        keep, swap = self._config.keep, self._config.keep + self._config.random
        drawn = random.integers(UNK + 1, self._vocabulary - 1, len(ids))
        drawn += drawn >= self._mask  # any token but [MASK] itself
        replaced = np.where(fate < swap, drawn, self._mask)
        return np.where(hidden & (fate >= keep), replaced, ids)

    def _infilled(self, text: Rows, random: np.random.Generator) -> Rows:
        """Every hidden span, however long, is one [MASK] (Lewis et al. 2020)."""
        row = np.repeat(np.arange(len(text.lengths)), text.lengths)
        hidden = spans(text.lengths, self._config.share, self._config.span, random)
        goes_on = hidden & np.roll(hidden, 1) & (row == np.roll(row, 1))
        goes_on[:1] = False
        ids = np.where(hidden, self._mask, text.ids)[~goes_on]
        return Rows(ids, np.bincount(row[~goes_on], minlength=len(text.lengths)))

    def _aligned(self, source: Rows, text: Rows, hidden: Flags, indices: Indices) -> Batch:
        """The batch whose target has the true token where one is hidden; PAD elsewhere costs nothing."""
        ids, lengths = with_eos(source)
        wanted = torch.full_like(ids, PAD)
        column = np.arange(len(hidden)) - np.repeat(np.cumsum(text.lengths) - text.lengths, text.lengths)
        row = np.repeat(np.arange(len(text.lengths)), text.lengths)
        wanted[row[hidden], column[hidden]] = torch.from_numpy(text.ids[hidden].astype(np.int64))
        return Batch(
            source=ids,
            source_lengths=lengths,
            index=torch.from_numpy(indices),
            target_out=wanted,
            target_lengths=lengths,
            target_tokens=int(hidden.sum()),
        )


def choose(lengths: Indices, share: float, random: np.random.Generator) -> Flags:
    """This share of each row's positions, at least one of each row, drawn with equal chances."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((random.random(len(row)), row))  # row by row, each shuffled
    rank = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    wanted = np.maximum(1, np.rint(share * lengths)).astype(np.int64)
    chosen = np.empty(len(row), np.bool_)
    chosen[order] = rank < wanted[row]
    return chosen


def spans(lengths: Indices, share: float, span: float, random: np.random.Generator) -> Flags:
    """About this share of all positions, in spans of that length on average, at least one in each row.

    Spans that begin anywhere at a rate r overlap, and leave exp(-r · length) uncovered: so r = -log(1 - share)
    / length. In short rows the one that each must have makes it more, the end that cuts spans makes it less.
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
