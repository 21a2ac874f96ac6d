"""A language model with hidden states: what a word is like is a state that EM finds in plain text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from seqloom.data.store import TokenStore
from seqloom.errors import SeqloomError
from seqloom.registry import register
from seqloom.settings import ModelSettings
from seqloom.statistical.base import FitData
from seqloom.statistical.hmm.emission import Categorical
from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.hmm.recursions import Chain
from seqloom.statistical.hmm.starts import best_fit, categorical_start
from seqloom.statistical.hmm.trellis import Trellis, trellis_of
from seqloom.statistical.state_reader import expect
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, Batch, Step, StepModel, Tree, Vocabularies

_NAME_WORDS = 3  # that a state is called by


class HiddenLanguageSettings(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"states": 8},
        "small": {"states": 32},
        "base": {"states": 64},
        "large": {"states": 128},
    }

    name: str = "hmm-lm"
    states: int = Field(32, ge=1, description="hidden states")
    iterations: int = Field(50, ge=1, description="of EM at the most")
    tolerance: float = Field(1e-3, ge=0, description="an iteration that gains less log P per token is the last")
    restarts: int = Field(1, ge=1, description="random starts, of which the best fit stays")
    smoothing: float = Field(0.01, gt=0, description="counts added to every symbol of every state")


@register(
    "hmm-lm",
    summary="Hidden Markov language model of plain text, by EM",
    paper="Baum et al. 1970; Rabiner 1989",
    settings=HiddenLanguageSettings,
    task="continue",
    fitted=True,
    defaults={"text.tokenizer": "word", "text.vocab_size": 10_000, "text.byte_fallback": False},
)
class HiddenLanguageModel(StepModel):
    """P(y_t | y_<t) = Σ_z P(z_t | y_<t) b(z_t, y_t); the end of a text is a symbol like any other."""

    def __init__(self, settings: HiddenLanguageSettings, vocabularies: Vocabularies) -> None:
        self.settings, self.vocabularies = settings, vocabularies

    def fit(self, lesson: FitData) -> dict[str, float]:
        texts = _texts(lesson.train)
        settings = self.settings
        frequencies = torch.bincount(torch.cat(texts), minlength=self.vocabularies.target) + settings.smoothing
        frequencies[[PAD, BOS]] = 0.0  # never part of a text
        fit = best_fit(
            lambda generator: categorical_start(frequencies, settings.states, generator, settings.smoothing),
            texts,
            restarts=settings.restarts,
            seed=lesson.seed,
            iterations=settings.iterations,
            tolerance=settings.tolerance,
        )
        self.load_state_dict(fit.model.state_dict())
        figures = {"iterations": float(len(fit.history)), "train_perplexity": self._perplexity(texts)}
        if len(lesson.valid):
            figures["perplexity"] = self._perplexity(_texts(lesson.valid))
        return figures

    def _perplexity(self, texts: list[Tensor]) -> float:
        tokens = sum(map(len, texts))
        return math.exp(-float(self._hmm.log_likelihood(texts).sum()) / tokens)

    def state_dict(self) -> dict[str, Tensor]:
        return self._hmm.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        hmm = Hmm.of(state)
        if not isinstance(hmm.emission, Categorical):
            raise ValueError("the states emit no words")
        expect(hmm.emission.probabilities.shape[1], self.vocabularies.target, "the vocabulary")
        self._hmm = hmm

    @property
    def _emitted(self) -> Tensor:
        assert isinstance(self._hmm.emission, Categorical)
        return self._hmm.emission.probabilities  # (K, V)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """Nothing to remember; before the first word there is P(z_1), (B, K)."""
        first = self._hmm.start.to(batch.source.device).repeat(len(batch.source), 1)
        return None, (first, torch.zeros_like(batch.source_lengths))

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        """P(z_{t+1} | y_≤t) = Σ_z a(z, z_{t+1}) P(z_t = z | y_≤t), and what it emits."""
        predicted, since = state
        emitted, transition = self._emitted.to(last.device), self._hmm.transition.to(last.device)
        seen = predicted * emitted[:, last].T
        following = seen / seen.sum(1, keepdim=True).clamp_min(torch.finfo(seen.dtype).tiny) @ transition
        predicted = torch.where((since == 0).unsqueeze(1), predicted, following)
        return Step((predicted @ emitted).log().float(), (predicted, since + 1), None)

    def trellis(self, text: str, tokenizers: TokenizerPair) -> Trellis:
        """The states of a text and its end; a state is called by its number and likeliest words."""
        ids = [*tokenizers.target.encode(text), EOS]
        emitted = self._emitted
        names = []
        for number, words in enumerate(
            emitted.topk(min(_NAME_WORDS, emitted.shape[1]), dim=1).indices.tolist()
        ):
            names.append(f"{number + 1}: {' '.join(tokenizers.target.pieces(words))}")
        return trellis_of(
            Chain.of(self._hmm.start, self._hmm.transition),
            emitted[:, ids].T.log(),
            tuple(tokenizers.target.pieces(ids)),
            tuple(names),
            torch.zeros(len(emitted), dtype=emitted.dtype),
        )


def _texts(store: TokenStore) -> list[Tensor]:
    """The ids of every text, each with its end."""
    texts = []
    for i in range(len(store)):
        if len(store.source(i)):
            raise SeqloomError(
                "hmm-lm learns from plain text, but the training data are pairs.",
                "give a file with one text per line, or use the model hmm for words and their tags",
            )
        texts.append(torch.tensor([*store.target(i).tolist(), EOS]))
    return texts
