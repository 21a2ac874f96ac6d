"""Noisy-channel reranking of n-best lists: λ₀ log P(y|x) + λ₁ log P(x|y) + λ₂ log P(y).

The weights λ are given or fitted on other data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from seqloom.decode.scoring import Scorer
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.decode.translator import requests_for
from seqloom.evaluate.metrics import sentence_metric
from seqloom.types import DependencyTree, Hypothesis

CorpusMetric = Callable[[Sequence[str]], float]  # corpus-level quality of translations, higher is better


@dataclass(frozen=True, slots=True)
class Channel:
    """Candidate with its three log-probabilities; those without a model are 0."""

    hypothesis: Hypothesis
    direct: float  # log P(y|x)
    reverse: float  # log P(x|y)
    language: float  # log P(y)

    def score(self, weights: ChannelWeights) -> float:
        """Return the score for ranking, with a reward per token against the bias towards short candidates."""
        return (
            weights.direct * self.direct
            + weights.reverse * self.reverse
            + weights.language * self.language
            + weights.length * len(self.hypothesis.tokens)
        )


@dataclass(frozen=True, slots=True)
class ChannelWeights:
    """Weights λ₁ of the reverse model and λ₂ of the language model, a reward per token, and λ₀ of log P(y|x).

    With λ₀ = 0 and λ₁ = λ₂ = 1, the score is that of the noisy channel alone: log P(x|y) + log P(y).
    """

    reverse: float = 0.0
    language: float = 0.0
    length: float = 0.0
    direct: float = 1.0


GRID = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
REWARDS = (0.0, 0.25, 0.5, 1.0)


def channels(
    sources: Sequence[str],
    candidates: Sequence[Sequence[Hypothesis]],
    *,
    reverse: Scorer | None = None,
    language: Scorer | None = None,
) -> list[list[Channel]]:
    """Return the candidates of each source with their log-probability under each model."""
    flat = [(source, one) for source, found in zip(sources, candidates, strict=True) for one in found]
    reverse_scores, language_scores = [0.0] * len(flat), [0.0] * len(flat)
    if reverse:
        reverse_scores = [
            score.log_prob for score in reverse.score([(one.text, source) for source, one in flat])
        ]
    if language:
        language_scores = [score.log_prob for score in language.score([("", one.text) for _, one in flat])]
    columns = zip(flat, reverse_scores, language_scores, strict=True)
    scored = iter(Channel(one, one.log_prob, back, fluency) for (_, one), back, fluency in columns)
    return [[next(scored) for _ in found] for found in candidates]


@dataclass(frozen=True)
class NoisyChannel:
    """Translator with the models that rerank its n-best lists."""

    translator: TorchTranslator
    nbest: int
    reverse: Scorer | None = None  # scores sources given translations
    language: Scorer | None = None  # scores translations alone

    def candidates(
        self,
        lines: Sequence[str],
        *,
        heads: Sequence[DependencyTree | None] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[list[Channel]]:
        """Return the n best translations of each line in search order, with their scores under each model."""
        beam = max(self.nbest, self.translator.search.beam)
        requests = requests_for(self.translator, lines, heads)
        found = self.translator.translate(requests, beam=beam, nbest=self.nbest, on_progress=on_progress)
        return channels(lines, found, reverse=self.reverse, language=self.language)

    def translate(
        self,
        lines: Sequence[str],
        weights: ChannelWeights,
        *,
        heads: Sequence[DependencyTree | None] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[list[Channel]]:
        """Return the candidates of each line, best first."""
        found = self.candidates(lines, heads=heads, on_progress=on_progress)
        return [rerank(many, weights) for many in found]


def rerank(found: Sequence[Channel], weights: ChannelWeights) -> list[Channel]:
    """Return the candidates of one source, best first; equal scores keep the order of the search."""
    return sorted(found, key=lambda one: one.score(weights), reverse=True)


def fit_weights(
    found: Sequence[Sequence[Channel]], quality: CorpusMetric, *, direct: float = 1.0
) -> tuple[ChannelWeights, float]:
    """Return the weights from a grid whose top candidates are best on validation data, and their quality.

    Ties go to the smallest weights, so a model that does not help is left out. `direct` is not fitted.
    """
    is_used = {
        "reverse": any(one.reverse for many in found for one in many),
        "language": any(one.language for many in found for one in many),
    }
    best, highest = ChannelWeights(direct=direct), -float("inf")
    for reverse, language, length in product(
        GRID if is_used["reverse"] else (0.0,), GRID if is_used["language"] else (0.0,), REWARDS
    ):
        weights = ChannelWeights(reverse, language, length, direct)
        value = quality([rerank(many, weights)[0].hypothesis.text for many in found])
        if value > highest:
            best, highest = weights, value
    return best, highest


def bleu_against(references: Sequence[Sequence[str]]) -> CorpusMetric:
    """Return the BLEU of translations as a function, which caches the n-gram counts of each candidate."""
    metric = sentence_metric("bleu")

    @cache
    def counts(line: int, text: str) -> NDArray[np.float64]:
        return np.asarray(metric.statistics(text, references[line]), dtype=np.float64)

    return lambda texts: metric.compute(np.sum([counts(*one) for one in enumerate(texts)], axis=0))
