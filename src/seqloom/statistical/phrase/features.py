"""The features of the log-linear model, score(derivation) = Σ_k weight_k · feature_k, and their weights."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Context = tuple[int, ...]

FEATURES = (
    "language",  # log P(y)
    "inverse-phrase",  # log φ(x|y)
    "inverse-lexical",
    "direct-phrase",  # log φ(y|x)
    "direct-lexical",
    "words",  # how many the target has
    "phrases",
    "distance",  # minus the source words that were jumped over
    "before-monotone",  # log P of how each phrase follows the one before it
    "before-swap",
    "before-other",
    "after-monotone",  # log P of how each phrase is followed by the next
    "after-swap",
    "after-other",
    "unknown",  # words that are passed through
)
LANGUAGE, TRANSLATION, WORDS, PHRASES, DISTANCE = 0, slice(1, 5), 5, 6, 7
BEFORE, AFTER, REORDERING, UNKNOWN = 8, 11, slice(8, 14), 14

# Passing a word through is the last resort: nothing is learned about it, so its weight is fixed.
TUNED = slice(0, UNKNOWN)
_UNKNOWN_WEIGHT = -20.0

# What tuning starts from: the language model and the four translation probabilities about equal in sum.
_START = {
    "language": 0.5,
    "inverse-phrase": 0.2,
    "inverse-lexical": 0.2,
    "direct-phrase": 0.2,
    "direct-lexical": 0.2,
    "words": 0.5,
    "phrases": 0.1,
    "distance": 0.1,
    **dict.fromkeys(FEATURES[REORDERING], 0.2),
}
# argmax P(x|y) P(y), with P(x|y) = Π φ(x_i|y_i) d(jump_i) and d(k) = e^-|k| (Koehn et al. 2003).
_NOISY_CHANNEL = {"language": 1.0, "inverse-phrase": 1.0, "distance": 1.0}


def start_weights() -> Vector:
    """The weights that tuning starts from."""
    return _weights(_START)


def noisy_channel() -> Vector:
    """The weights that make the model P(x|y) P(y)."""
    return _weights(_NOISY_CHANNEL)


def _weights(given: dict[str, float]) -> Vector:
    weights = np.array([given.get(name, 0.0) for name in FEATURES])
    weights[UNKNOWN] = _UNKNOWN_WEIGHT
    return weights


class PhraseLanguageModel(Protocol):
    """What the decoder asks of a language model of the target."""

    @property
    def start(self) -> Context:
        """The context of a sentence's first word."""
        ...

    def log_prob(self, context: Context, word: int) -> tuple[float, Context]:
        """Natural log P(word | context), and what of both matters for the next word."""
        ...
