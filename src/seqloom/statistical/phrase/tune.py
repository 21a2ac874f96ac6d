"""Tuning of the feature weights for BLEU: batch MIRA over n-best lists (Cherry & Foster 2012).

In each round, the validation sentences are decoded and their n-best lists are merged with those of earlier
rounds. Then the weights are updated so that in every list the hypothesis with a high score and a high BLEU
(hope) leads the one with a high score and a low BLEU (fear) by a margin equal to their difference in BLEU.
The weights of the round with the highest BLEU are returned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.statistical.phrase.bleu import SIZE, Counts, bleu
from seqloom.statistical.phrase.features import TUNED, Vector

logger = logging.getLogger(__name__)

_EPOCHS = 60  # passes over the n-best lists per round
_STEP = 0.01  # maximum step size, C in the paper
_DECAY = 0.999  # of the background counts for the BLEU of a sentence
_PATIENCE = 3  # rounds without an improvement of BLEU


class NBestList(NamedTuple):
    """The n-best list of a sentence, best first: features and BLEU counts, one row per hypothesis."""

    features: NDArray[np.float64]  # (n, features)
    counts: Counts  # (n, SIZE)


Decode = Callable[[Vector], Sequence[NBestList]]  # weights -> n-best lists


def tune(decode: Decode, weights: Vector, *, rounds: int, seed: int) -> tuple[Vector, float]:
    """Return the weights of the round with the highest BLEU, and that BLEU from 0 to 100."""
    random = np.random.default_rng(seed)
    pools: list[NBestList] = []
    size = float(np.abs(weights[TUNED]).sum())
    best, highest, stale = weights, -1.0, 0
    for number in range(1, rounds + 1):
        scaled = _scaled(weights, size)
        lists = decode(scaled)
        score = 100 * float(bleu(np.sum([nbest.counts[0] for nbest in lists], axis=0)))
        logger.info(f"tuning round {number}: BLEU {score:.2f}")
        stale = 0 if score > highest else stale + 1
        if score > highest:
            best, highest = scaled, score
        if stale == _PATIENCE or number == rounds:
            break
        pools = [merge(*both) for both in zip(pools, lists, strict=True)] if pools else list(lists)
        weights = mira(pools, weights, random)
    return best, highest


def _scaled(weights: Vector, size: float) -> Vector:
    """Scale the sum of absolute weights to `size`: MIRA lets them grow, and only their ratios matter."""
    scaled = weights.copy()
    scaled[TUNED] *= size / max(float(np.abs(weights[TUNED]).sum()), 1e-9)
    return scaled


def merge(pool: NBestList, new: NBestList) -> NBestList:
    """Concatenate two lists without duplicates."""
    features, counts = (np.concatenate(both) for both in zip(pool, new, strict=True))
    _, first = np.unique(features.round(6), axis=0, return_index=True)
    kept = np.sort(first)
    return NBestList(features[kept], counts[kept])


def mira(pools: Sequence[NBestList], weights: Vector, random: np.random.Generator) -> Vector:
    """Return the average over all steps of weights that separate hope from fear in every list."""
    weights, total = weights.copy(), np.zeros_like(weights)
    background = np.zeros(SIZE)
    for _ in range(_EPOCHS):
        for index in random.permutation(len(pools)):
            features, counts = pools[index]
            scores = features @ weights
            # The BLEU of one sentence is unreliable, so it is measured together with that of recent ones.
            gain = _gain(background, counts)
            hope, fear = int(np.argmax(scores + gain)), int(np.argmax(scores - gain))
            difference = features[hope, TUNED] - features[fear, TUNED]
            loss = gain[hope] - gain[fear] - (scores[hope] - scores[fear])
            norm = float(difference @ difference)
            if loss > 0 and norm > 0:
                weights[TUNED] += min(_STEP, loss / norm) * difference
            background = _DECAY * background + counts[int(np.argmax(scores))]
            total += weights
    return total / (_EPOCHS * len(pools))


def _gain(background: Counts, counts: Counts) -> NDArray[np.float64]:
    """Return the BLEU against the background times the reference length: the value of each hypothesis."""
    combined = background + counts
    return bleu(combined, smooth=0.1) * combined[:, -1]
