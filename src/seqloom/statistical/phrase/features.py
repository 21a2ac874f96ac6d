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
    "words",  # number of target words
    "phrases",
    "distance",  # minus the number of source words jumped over
    "before-monotone",  # log P of the orientation of each phrase relative to the previous one
    "before-swap",
    "before-other",
    "after-monotone",  # log P of the orientation of the next phrase relative to each one
    "after-swap",
    "after-other",
    "unknown",  # words passed through
)
LANGUAGE, TRANSLATION, WORDS, PHRASES, DISTANCE = 0, slice(1, 5), 5, 6, 7
BEFORE, AFTER, REORDERING, UNKNOWN = 8, 11, slice(8, 14), 14

# Passing a word through is the last resort and cannot be learned, so its weight is fixed.
TUNED = slice(0, UNKNOWN)
_UNKNOWN_WEIGHT = -20.0

# Initial weights for tuning: the language model and the sum of the four translation features about equal.
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
    """Return the initial weights for tuning."""
    return _weights(_START)


def noisy_channel() -> Vector:
    """Return the weights of the noisy-channel model P(x|y) P(y)."""
    return _weights(_NOISY_CHANNEL)


def _weights(by_name: dict[str, float]) -> Vector:
    weights = np.array([by_name.get(name, 0.0) for name in FEATURES])
    weights[UNKNOWN] = _UNKNOWN_WEIGHT
    return weights


class PhraseLanguageModel(Protocol):
    """Interface of the target language model for the decoder."""

    @property
    def start(self) -> Context:
        """The context of the first word of a sentence."""
        ...

    def log_prob(self, context: Context, word: int) -> tuple[float, Context]:
        """Return the natural log P(word | context), and the part of both that matters for the next word."""
        ...
