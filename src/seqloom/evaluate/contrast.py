"""Contrastive evaluation: whether a model prefers the right one of two texts, by kind and distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

Key = TypeVar("Key", str, int)


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two texts that differ in one respect, of which one is right."""

    right: str
    wrong: str
    source: str = ""  # empty for language models
    kind: str = ""
    distance: int | None = None  # e.g. words between the verb and its subject


@dataclass(frozen=True, slots=True)
class ContrastAccuracy:
    """Accuracy of a group of contrasts."""

    kind: str | None  # None: all kinds
    distance: int | None  # None: all distances
    count: int
    correct: int

    @property
    def accuracy(self) -> float:
        """Share of contrasts whose right text has the higher score, in percent."""
        return 100 * self.correct / self.count

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "accuracy": self.accuracy}


@dataclass(frozen=True, slots=True)
class ContrastReport:
    """Accuracies of a model: overall, by kind, by distance, and by both."""

    total: ContrastAccuracy
    kinds: list[ContrastAccuracy]
    distances: list[ContrastAccuracy]
    groups: list[ContrastAccuracy]
    ties: int  # contrasts with equal scores, or without any; they count as errors

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON-compatible data."""
        parts = {"by_kind": self.kinds, "by_distance": self.distances, "groups": self.groups}
        total = {"count": self.total.count, "correct": self.total.correct, "accuracy": self.total.accuracy}
        return {
            **total,
            "ties": self.ties,
            **{name: [group.as_dict() for group in part] for name, part in parts.items()},
        }


def contrast_report(
    contrasts: Sequence[Contrast], right: Sequence[float | None], wrong: Sequence[float | None]
) -> ContrastReport:
    """Return the accuracies, given the scores of the right and the wrong texts.

    None is the score of a text that the model cannot generate; it is lower than any other score.
    """
    scores = list(zip(map(_number, right), map(_number, wrong), strict=True))
    results = [(contrast, r > w) for contrast, (r, w) in zip(contrasts, scores, strict=True)]

    def accuracy(kind: str | None, distance: int | None) -> ContrastAccuracy:
        chosen = [
            correct
            for contrast, correct in results
            if kind in (None, contrast.kind) and distance in (None, contrast.distance)
        ]
        return ContrastAccuracy(kind, distance, len(chosen), sum(chosen))

    def distinct(value: Callable[[Contrast], Key | None]) -> list[Key]:
        return sorted({found for contrast in contrasts if (found := value(contrast)) is not None})

    kinds, distances = distinct(lambda contrast: contrast.kind), distinct(lambda contrast: contrast.distance)
    both = [accuracy(kind, distance) for kind in kinds for distance in distances]
    return ContrastReport(
        total=accuracy(None, None),
        kinds=[accuracy(kind, None) for kind in kinds],
        distances=[accuracy(None, distance) for distance in distances],
        groups=[group for group in both if group.count],
        ties=sum(r == w for r, w in scores),
    )


def _number(score: float | None) -> float:
    return float("-inf") if score is None else score
