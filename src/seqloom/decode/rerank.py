"""The noisy channel over n-best lists: log P(y|x) + λ₁ log P(x|y) + λ₂ log P(y), λ fitted on other data."""

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
from seqloom.evaluate.metrics import one_metric
from seqloom.types import DependencyTree, Hypothesis

CorpusMetric = Callable[[Sequence[str]], float]  # how good such answers are, higher is better


@dataclass(frozen=True, slots=True)
class Channel:
    """One candidate and its three log-probabilities; those that no model was given for are 0."""

    hypothesis: Hypothesis
    direct: float  # log P(y|x)
    reverse: float  # log P(x|y)
    language: float  # log P(y)

    def score(self, weights: ChannelWeights) -> float:
        """What the candidate is ranked by, with a reward per token against the short ones it would prefer."""
        return (
            self.direct
            + weights.reverse * self.reverse
            + weights.language * self.language
            + weights.length * len(self.hypothesis.tokens)
        )


@dataclass(frozen=True, slots=True)
class ChannelWeights:
    """λ₁ of the reverse model, λ₂ of the language model, and a reward per token."""

    reverse: float = 0.0
    language: float = 0.0
    length: float = 0.0


GRID = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
REWARDS = (0.0, 0.25, 0.5, 1.0)


def channels(
    sources: Sequence[str],
    candidates: Sequence[Sequence[Hypothesis]],
    *,
    reverse: Scorer | None = None,
    language: Scorer | None = None,
) -> list[list[Channel]]:
    """Every candidate of every source with what each model says of it."""
    flat = [(source, one) for source, found in zip(sources, candidates, strict=True) for one in found]
    back, own = [0.0] * len(flat), [0.0] * len(flat)
    if reverse:
        back = [score.log_prob for score in reverse.score([(one.text, source) for source, one in flat])]
    if language:
        own = [score.log_prob for score in language.score([("", one.text) for _, one in flat])]
    scored = iter(Channel(one, one.log_prob, r, w) for (_, one), r, w in zip(flat, back, own, strict=True))
    return [[next(scored) for _ in found] for found in candidates]


@dataclass(frozen=True)
class NoisyChannel:
    """A translator, and the models that have a say in which of its n best answers is the best."""

    translator: TorchTranslator
    nbest: int
    reverse: Scorer | None = None  # of sources given answers
    language: Scorer | None = None  # of answers alone

    def candidates(
        self,
        lines: Sequence[str],
        *,
        heads: Sequence[DependencyTree | None] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[list[Channel]]:
        """The n best answers of every line in the order of the search, with what every model says of them."""
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
        """The candidates of every line, best first."""
        found = self.candidates(lines, heads=heads, on_progress=on_progress)
        return [rerank(many, weights) for many in found]


def rerank(found: Sequence[Channel], weights: ChannelWeights) -> list[Channel]:
    """The candidates of one source, best first; of equal ones the search's own order stays."""
    return sorted(found, key=lambda one: one.score(weights), reverse=True)


def fit_weights(found: Sequence[Sequence[Channel]], quality: CorpusMetric) -> tuple[ChannelWeights, float]:
    """The weights of a grid whose first answers are best on validation data, and how good they are.

    Of equally good ones the smallest are taken: a model that does not help is left out.
    """
    helps = {
        "reverse": any(one.reverse for many in found for one in many),
        "language": any(one.language for many in found for one in many),
    }
    best, highest = ChannelWeights(), -float("inf")
    for reverse, language, length in product(
        GRID if helps["reverse"] else (0.0,), GRID if helps["language"] else (0.0,), REWARDS
    ):
        weights = ChannelWeights(reverse, language, length)
        value = quality([rerank(many, weights)[0].hypothesis.text for many in found])
        if value > highest:
            best, highest = weights, value
    return best, highest


def bleu_against(references: Sequence[Sequence[str]]) -> CorpusMetric:
    """How good answers are: their BLEU. What an answer's n-grams count is kept, as weights share answers."""
    metric = one_metric("bleu")

    @cache
    def counts(line: int, text: str) -> NDArray[np.float64]:
        return np.asarray(metric.statistics(text, references[line]), dtype=np.float64)

    return lambda answers: metric.compute(np.sum([counts(*one) for one in enumerate(answers)], axis=0))
