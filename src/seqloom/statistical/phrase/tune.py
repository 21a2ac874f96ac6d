"""Weights that give a high BLEU: batch MIRA over n-best lists (Cherry & Foster 2012).

The validation sentences are decoded, their n-best lists join those of earlier rounds, and the weights are moved
so that in every list the hypothesis that is good and likely (hope) leads the one that is bad and likely (fear)
by as much as it has more BLEU. Then the sentences are decoded with the new weights. The weights that gave the
highest BLEU of a whole decoding are taken in the end.
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

_EPOCHS = 60  # passes over the lists in a round
_STEP = 0.01  # the longest step, C in the paper
_DECAY = 0.999  # of the counts that a sentence's BLEU is seen against
_PATIENCE = 3  # rounds without a better BLEU


class ScoredCandidate(NamedTuple):
    """The n-best list of a sentence, the best first: features and counts for BLEU, a row per hypothesis."""

    features: NDArray[np.float64]  # (n, features)
    counts: Counts  # (n, SIZE)


Decode = Callable[[Vector], Sequence[ScoredCandidate]]  # the n-best lists under some weights


def tune(decode: Decode, weights: Vector, *, rounds: int, seed: int) -> tuple[Vector, float]:
    """The weights whose decoding had the highest BLEU, and that BLEU from 0 to 100."""
    random = np.random.default_rng(seed)
    pools: list[ScoredCandidate] = []
    size = float(np.abs(weights[TUNED]).sum())
    best, highest, since = weights, -1.0, 0
    for number in range(1, rounds + 1):
        tried = _scaled(weights, size)
        lists = decode(tried)
        reached = 100 * float(bleu(np.sum([one.counts[0] for one in lists], axis=0)))
        logger.info(f"tuning, round {number}: BLEU {reached:.2f}")
        since = 0 if reached > highest else since + 1
        if reached > highest:
            best, highest = tried, reached
        if since == _PATIENCE or number == rounds:
            break
        pools = [merged(*both) for both in zip(pools, lists, strict=True)] if pools else list(lists)
        weights = mira(pools, weights, random)
    return best, highest


def _scaled(weights: Vector, size: float) -> Vector:
    """The weights with that sum of absolute values: MIRA lets them grow, and all that counts is their ratio."""
    scaled = weights.copy()
    scaled[TUNED] *= size / max(float(np.abs(weights[TUNED]).sum()), 1e-9)
    return scaled


def merged(pool: ScoredCandidate, new: ScoredCandidate) -> ScoredCandidate:
    """Both lists, without what is in them twice."""
    features, counts = (np.concatenate(both) for both in zip(pool, new, strict=True))
    _, first = np.unique(features.round(6), axis=0, return_index=True)
    kept = np.sort(first)
    return ScoredCandidate(features[kept], counts[kept])


def mira(pools: Sequence[ScoredCandidate], weights: Vector, random: np.random.Generator) -> Vector:
    """The average over all steps of weights that separate hope from fear in every list."""
    weights, total = weights.copy(), np.zeros_like(weights)
    background = np.zeros(SIZE)
    for _ in range(_EPOCHS):
        for place in random.permutation(len(pools)):
            features, counts = pools[place]
            scores = features @ weights
            # BLEU of a sentence means little; that of the last thousand or so with this one in it means more.
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
    """BLEU against the background, times the words of the references: what a hypothesis is worth."""
    together = background + counts
    return bleu(together, smooth=0.1) * together[:, -1]
