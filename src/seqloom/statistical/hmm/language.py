"""Language model with hidden states: word classes that EM finds in plain text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from seqloom.data.store import TokenStore
from seqloom.errors import SeqloomError
from seqloom.registry import CONTINUE, register
from seqloom.settings import ModelSettings
from seqloom.statistical.base import FitData
from seqloom.statistical.hmm.emission import Categorical
from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.hmm.recursions import Chain
from seqloom.statistical.hmm.starts import best_fit, categorical_start
from seqloom.statistical.hmm.trellis import Trellis, trellis_of
from seqloom.statistical.state_reader import expect_size
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, Batch, Step, StepModel, Tree, Vocabularies

_NAME_WORDS = 3  # most probable words shown in the name of a state


class HiddenLanguageSettings(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"states": 8},
        "small": {"states": 32},
        "base": {"states": 64},
        "large": {"states": 128},
    }

    name: str = "hmm-lm"
    states: int = Field(32, ge=1, description="number of hidden states")
    iterations: int = Field(50, ge=1, description="maximum number of EM iterations")
    tolerance: float = Field(1e-3, ge=0, description="stop EM when an iteration gains less log P per token")
    restarts: int = Field(1, ge=1, description="random initialisations to try; the best fit is kept")
    smoothing: float = Field(0.01, gt=0, description="counts added to every symbol of every state")


@register(
    "hmm-lm",
    summary="Hidden Markov language model of plain text, fitted by EM",
    paper="Baum et al. 1970; Rabiner 1989",
    settings=HiddenLanguageSettings,
    task=CONTINUE,
    fitted=True,
    defaults={"text.tokenizer": "word", "text.vocab_size": 10_000, "text.byte_fallback": False},
)
class HiddenLanguageModel(StepModel):
    """P(y_t | y_<t) = Σ_z P(z_t | y_<t) b(z_t, y_t); the end of a text is an ordinary symbol."""

    def __init__(self, settings: HiddenLanguageSettings, vocabularies: Vocabularies) -> None:
        self.settings, self.vocabularies = settings, vocabularies

    def fit(self, data: FitData) -> dict[str, float]:
        texts = _texts(data.train)
        settings = self.settings
        frequencies = torch.bincount(torch.cat(texts), minlength=self.vocabularies.target) + settings.smoothing
        frequencies[[PAD, BOS]] = 0.0  # never emitted
        fit = best_fit(
            lambda generator: categorical_start(frequencies, settings.states, generator, settings.smoothing),
            texts,
            restarts=settings.restarts,
            seed=data.seed,
            iterations=settings.iterations,
            tolerance=settings.tolerance,
        )
        self.load_state_dict(fit.model.state_dict())
        metrics = {"iterations": float(len(fit.history)), "train_perplexity": self._perplexity(texts)}
        if len(data.valid):
            metrics["perplexity"] = self._perplexity(_texts(data.valid))
        return metrics

    def _perplexity(self, texts: list[Tensor]) -> float:
        tokens = sum(map(len, texts))
        return math.exp(-float(self._hmm.log_likelihood(texts).sum()) / tokens)

    def state_dict(self) -> dict[str, Tensor]:
        return self._hmm.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        hmm = Hmm.from_state(state)
        if not isinstance(hmm.emission, Categorical):
            raise ValueError("the states do not emit symbols")
        expect_size(hmm.emission.probabilities.shape[1], self.vocabularies.target, "vocabulary size")
        self._hmm = hmm

    @property
    def _emission_probs(self) -> Tensor:
        assert isinstance(self._hmm.emission, Categorical)
        return self._hmm.emission.probabilities  # (K, V)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """Return no memory; the state is P(z_1), (B, K), and the number of tokens generated."""
        first = self._hmm.start.to(batch.source.device).repeat(len(batch.source), 1)
        return None, (first, torch.zeros_like(batch.source_lengths))

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        """P(z_{t+1} | y_≤t) = Σ_z a(z, z_{t+1}) P(z_t = z | y_≤t), multiplied by the emission probabilities."""
        predicted, length = state
        emission, transition = self._emission_probs.to(last.device), self._hmm.transition.to(last.device)
        joint = predicted * emission[:, last].T
        following = joint / joint.sum(1, keepdim=True).clamp_min(torch.finfo(joint.dtype).tiny) @ transition
        predicted = torch.where((length == 0).unsqueeze(1), predicted, following)
        return Step((predicted @ emission).log().float(), (predicted, length + 1), None)

    def trellis(self, text: str, tokenizers: TokenizerPair) -> Trellis:
        """Return the trellis of a text and its end; states are named by number and most probable words."""
        ids = [*tokenizers.target.encode(text), EOS]
        emission = self._emission_probs
        names = []
        for number, words in enumerate(
            emission.topk(min(_NAME_WORDS, emission.shape[1]), dim=1).indices.tolist()
        ):
            names.append(f"{number + 1}: {' '.join(tokenizers.target.pieces(words))}")
        return trellis_of(
            Chain.of(self._hmm.start, self._hmm.transition),
            emission[:, ids].T.log(),
            tuple(tokenizers.target.pieces(ids)),
            tuple(names),
            torch.zeros(len(emission), dtype=emission.dtype),
        )


def _texts(store: TokenStore) -> list[Tensor]:
    """Return the ids of every text, each followed by EOS."""
    texts = []
    for i in range(len(store)):
        if len(store.source(i)):
            raise SeqloomError(
                "hmm-lm is trained on plain text, but the training data are pairs.",
                "give a file with one text per line, or use the model hmm for words with tags",
            )
        texts.append(torch.tensor([*store.target(i).tolist(), EOS]))
    return texts
