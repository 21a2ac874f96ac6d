"""Minimum Bayes risk: choose the candidate that is most similar to all candidates on average."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from seqloom.types import Hypothesis

Utility = Callable[[str, str], float]
UtilityName = Literal["chrf", "bleu"]


def least_risk(
    candidates: Sequence[Hypothesis], utility: Utility, *, weights: Sequence[float] | None = None
) -> list[tuple[Hypothesis, float]]:
    """Return the candidates with their expected utility, highest first: u(y) = Σ_z p(z) utility(y, z).

    p is estimated from the candidates: samples have equal weights (a sample drawn twice counts twice), and an
    n-best list is weighted by its probabilities. Kumar & Byrne 2004; Eikema & Aziz 2020, arXiv:2005.10283.
    """
    given = list(weights or [1.0] * len(candidates))
    shares: dict[str, float] = {}
    first: dict[str, Hypothesis] = {}
    for candidate, weight in zip(candidates, given, strict=True):
        shares[candidate.text] = shares.get(candidate.text, 0.0) + weight / sum(given)
        first.setdefault(candidate.text, candidate)
    expected = {text: sum(share * utility(text, other) for other, share in shares.items()) for text in shares}
    ranked = sorted(first.values(), key=lambda one: expected[one.text], reverse=True)
    return [(one, expected[one.text]) for one in ranked]


def by_least_risk(
    candidates: Sequence[Sequence[Hypothesis]], utility: UtilityName, *, drawn: bool
) -> list[list[Hypothesis]]:
    """Return the distinct candidates of each line, ranked and scored by their expected utility.

    Sampled candidates have equal weights; those found by search are weighted by their probabilities. A line
    without any possible output is returned unchanged.
    """
    similarity = sentence_utility(utility)

    def ranked(found: Sequence[Hypothesis]) -> list[Hypothesis]:
        if any("impossible" in one.flags for one in found):
            return list(found)
        weights = None if drawn else _probabilities(found)
        return [replace(one, score=value) for one, value in least_risk(found, similarity, weights=weights)]

    return [ranked(found) for found in candidates]


def _probabilities(found: Sequence[Hypothesis]) -> list[float]:
    """Return probabilities relative to the largest one, so that their sum cannot underflow to 0."""
    highest = max((one.log_prob for one in found), default=0.0)
    return [math.exp(one.log_prob - highest) for one in found]


def sentence_utility(name: UtilityName) -> Utility:
    """Return sacreBLEU's sentence-level chrF or smoothed BLEU as a function, 0 to 100, with one reference."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer = CHRF() if name == "chrf" else BLEU(effective_order=True, force=True)
    return partial(_score, scorer)


def _score(scorer: object, hypothesis: str, reference: str) -> float:
    return float(scorer.sentence_score(hypothesis, [reference]).score)  # type: ignore[attr-defined]
