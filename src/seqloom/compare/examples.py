"""Test sentences that show how the systems differ, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from seqloom.evaluate.metrics import sentence_metric

TOTAL, EACH = 12, 4  # sentences, and those of each kind; random ones fill up
_SEED = 1


@dataclass(frozen=True)
class Shown:
    """A test sentence, the outputs of all systems, and why it was chosen."""

    line: int  # in the test part, from 1
    reason: str
    source: str
    reference: str
    outputs: Mapping[str, str]  # system → output
    scores: Mapping[str, float]  # system → chrF of this sentence

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def choose_examples(
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Mapping[str, Sequence[str]],
    pair: tuple[str, str] | None,
) -> list[Shown]:
    """Return sentences with the largest disagreement, with the largest gain in the pair, and random ones.

    Disagreement is one minus the mean chrF between the outputs; the gain is that of the second system of the
    pair in chrF against the reference. No source is shown twice.
    """
    chrf = _sentence_chrf()
    scores = {
        name: [chrf(text, reference) for text, reference in zip(texts, references, strict=True)]
        for name, texts in outputs.items()
    }
    seen: set[str] = set()
    chosen: list[Shown] = []

    def take(order: Sequence[int], reason: str, count: int = EACH) -> None:
        wanted = len(chosen) + count
        for row in order:
            if len(chosen) == wanted:
                return
            if sources[row] in seen:
                continue
            seen.add(sources[row])
            texts = {name: own[row] for name, own in outputs.items()}
            own_scores = {name: own[row] for name, own in scores.items()}
            chosen.append(Shown(row + 1, reason, sources[row], references[row], texts, own_scores))

    if len(outputs) > 1:
        take(_by(disagreement(list(outputs.values()), chrf)), "largest disagreement")
    if pair:
        before, after = pair
        gains = [b - a for a, b in zip(scores[before], scores[after], strict=True)]
        take(_by(gains), f"largest gain of {after} over {before}")
    take(np.random.default_rng(_SEED).permutation(len(sources)).tolist(), "random", TOTAL - len(chosen))
    return chosen


def disagreement(outputs: Sequence[Sequence[str]], chrf: Callable[[str, str], float]) -> list[float]:
    """Return 100 minus the mean chrF between the outputs of two systems, for each sentence."""
    pairs = list(combinations(range(len(outputs)), 2))
    rows = zip(*outputs, strict=True)
    return [100 - sum(chrf(row[a], row[b]) for a, b in pairs) / len(pairs) for row in rows]


def _by(values: Sequence[float]) -> list[int]:
    """Return the positions of the values, largest first; equal ones in order."""
    return sorted(range(len(values)), key=lambda row: -values[row])


def _sentence_chrf() -> Callable[[str, str], float]:
    """Return chrF of a sentence, with a cache: many outputs are equal."""
    metric = sentence_metric("chrf")
    known: dict[tuple[str, str], float] = {}

    def chrf(text: str, reference: str) -> float:
        key = (text, reference)
        if key not in known:
            known[key] = metric.compute(np.array(metric.statistics(text, [reference])))
        return known[key]

    return chrf
