"""Decoding of vectors and distributions, step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.data.encoding import Row
from seqloom.decode.config import SearchConfig
from seqloom.decode.pipeline import BatchedResults, Progress
from seqloom.decode.torch_translator import read_sources
from seqloom.decode.translator import Capability, Outputs, Translator
from seqloom.models.base import VectorModel
from seqloom.text.frames import Frames
from seqloom.text.pair import TokenizerPair
from seqloom.types import Hypothesis, Request

_MOST_DIGITS = 6  # of a number in text: single precision has about 7


class VectorTranslator(Translator):
    """Translator whose outputs are arrays (T, F); the text of an output is the array as JSON.

    A sequence ends when the end is more probable than another vector. An output does not depend on the others.
    """

    engine = "torch"
    description = "A model of vectors"
    alternative = "leave the option out"
    search_options: ClassVar[frozenset[str]] = frozenset(
        {"batch_tokens", "max_length_factor", "max_length_extra", "longest"}
    )

    def __init__(
        self,
        model: VectorModel,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(search)
        self.model, self.tokenizers, self.device = model, tokenizers, torch.device(device)

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset()

    def predict(self, lines: Sequence[str], *, on_progress: Progress | None = None) -> list[Frames]:
        """Return the array (T, F) of each line, on the scale of the training data; (0, F) for an empty line."""
        self.check(self.search)
        return [array for array, _ in self._predict(lines, self.search, on_progress)]

    def _translate(
        self, requests: list[Request], search: SearchConfig, *, alignment: bool, on_progress: Progress
    ) -> Outputs:
        found = self._predict([request.source for request in requests], search, on_progress)
        return [[_hypothesis(array, is_finished)] for array, is_finished in found]

    def _flagged(self, request: Request, found: list[Hypothesis]) -> list[Hypothesis]:
        """Return the hypotheses; the quality flags of text do not apply."""
        return found

    def _predict(
        self, lines: Sequence[str], search: SearchConfig, on_progress: Progress | None
    ) -> list[tuple[Frames, bool]]:
        """Return the array of each line, and whether it ended before the maximum length."""
        sources = read_sources(self.tokenizers, lines)
        nothing = np.empty((0, self.tokenizers.vectors.size), np.float32)
        results = BatchedResults(list(map(len, sources)), empty=(nothing, True), on_progress=on_progress)
        for places in results.batches(batch_tokens=search.batch_tokens):
            results.put(places, self._decode([sources[i] for i in places], search))
        return results.results

    @torch.inference_mode()
    def _decode(self, sources: Sequence[Row], search: SearchConfig) -> list[tuple[Frames, bool]]:
        batch = collate_ids(sources, None, range(len(sources))).to(self.device)
        limits = torch.tensor([self._limit(len(source), search) for source in sources], device=self.device)
        memory, state = self.model.start(batch)
        last = torch.zeros(len(sources), self.tokenizers.vectors.size, device=self.device)
        lengths = torch.full_like(limits, -1)  # not yet ended
        vectors: list[Tensor] = []
        for step in range(int(limits.max()) + 1):
            last, end, state = self.model.next_vector(memory, state, last)
            lengths[(lengths < 0) & (end > 0.5)] = step
            if bool(((lengths >= 0) | (limits <= step)).all()):
                break
            vectors.append(last)
        found = (
            torch.stack(vectors, dim=1).cpu().numpy() if vectors else np.empty((len(sources), 0, last.shape[1]))
        )
        counts = torch.where(lengths < 0, limits, lengths.minimum(limits)).tolist()
        ended = (lengths >= 0).tolist()
        restore = self.tokenizers.vectors.restore
        return [(restore(row[:count]), done) for row, count, done in zip(found, counts, ended, strict=True)]

    def _limit(self, source_length: int, search: SearchConfig) -> int:
        """Return the maximum number of vectors."""
        length = source_length + self.tokenizers.source_end
        longest, positions = search.max_length(length), self.model.max_target_length(length)
        return max(1, (longest if positions is None else min(longest, positions)) - 1)


def _hypothesis(array: Frames, is_finished: bool) -> Hypothesis:
    rows = [[float(f"{number:.{_MOST_DIGITS}g}") for number in row] for row in array.tolist()]
    flags = () if is_finished else ("cut",)
    return Hypothesis(text=json.dumps(rows), score=0.0, finished=is_finished, flags=flags)
