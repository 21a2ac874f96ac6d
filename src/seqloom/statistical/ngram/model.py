"""The n-gram language model as a step model: fitting, saving and decoding."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator
from torch import Tensor

from seqloom.data.store import TokenStore
from seqloom.registry import CONTINUE, register
from seqloom.settings import ModelSettings
from seqloom.statistical.base import FitData
from seqloom.statistical.ngram.smoothing import pruning_problem
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.statistical.state_reader import expect_size
from seqloom.types import PAD, Batch, Step, StepModel, Tree, Vocabularies

logger = logging.getLogger(__name__)


class NgramSettings(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {"tiny": {"order": 3}, "small": {}, "base": {"order": 6}}

    name: str = "ngram"
    order: int = Field(5, ge=1, description="maximum n-gram length in words; the context is one word shorter")
    prune: tuple[int, ...] = Field(
        (),
        description="per order, drop n-grams with at most this count, e.g. [0, 0, 1]; the last value repeats",
    )

    @field_validator("prune")
    @classmethod
    def _check_pruning(cls, prune: tuple[int, ...]) -> tuple[int, ...]:
        if problem := pruning_problem(prune):
            raise ValueError(f"model.prune: {problem}")
        return prune


@register(
    "ngram",
    summary="n-gram language model (modified Kneser-Ney) of plain text, or of the targets of pairs",
    paper="Kneser & Ney 1995; Chen & Goodman 1999",
    settings=NgramSettings,
    task=CONTINUE,
    fitted=True,
)
class NgramModel(StepModel):
    """p(y_t | preceding words). The state of a row is these words, (R, order - 1), padded with PAD."""

    def __init__(self, settings: NgramSettings, vocabularies: Vocabularies) -> None:
        self.settings, self.vocabulary = settings, vocabularies.target
        self._ngrams: Ngrams | None = None

    @property
    def ngrams(self) -> Ngrams:
        """The n-gram tables of a fitted or restored model."""
        assert self._ngrams is not None, "call fit or load_state_dict first"
        return self._ngrams

    def fit(self, data: FitData) -> dict[str, float]:
        """Count the targets; the perplexity is that of the validation targets per token, EOS included."""
        self._ngrams = Ngrams.estimate(
            targets(data.train),
            order=self.settings.order,
            vocabulary=self.vocabulary,
            prune=self.settings.prune,
        )
        for note in self.ngrams.notes:
            logger.info(note)
        scores = [score for row in targets(data.valid) for score in self.ngrams.score(row.tolist())]
        sizes = {f"{n}-grams": float(len(level)) for n, level in enumerate(self.ngrams.levels, 1)}
        return {"perplexity": math.exp(-math.fsum(scores) / len(scores))} | sizes

    def state_dict(self) -> dict[str, Tensor]:
        return self.ngrams.to_tensors()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        ngrams = Ngrams.from_tensors(state)
        expect_size(ngrams.vocabulary, self.vocabulary, "vocabulary size")
        self._ngrams = ngrams

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """Return no memory, because sources are ignored, and an empty context."""
        rows = len(batch.source_lengths)
        return None, torch.full((rows, self.ngrams.order - 1), PAD, device=batch.source_lengths.device)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        words = torch.cat((state, last.unsqueeze(1)), dim=1)[:, 1:]
        contexts = [tuple(word for word in row if word != PAD) for row in words.tolist()]
        log_probs = torch.from_numpy(self.ngrams.log_probs(contexts)).to(last.device)
        return Step(log_probs, words, None)


def targets(store: TokenStore) -> Iterator[NDArray[np.integer]]:
    """Yield the targets of a store, row by row."""
    ids, offsets = np.asarray(store.ids["target"]), store.offsets["target"].tolist()
    for start, end in pairwise(offsets):
        yield ids[start:end]
