"""Metrics of labels, which are compared word by word: accuracy, macro F1 and the confusion matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seqloom.evaluate.resample import Matrix
from seqloom.evaluate.sentence_metric import SentenceMetric, own_signature

MISSING = "(none)"  # stands for the label of a position that only one side has


def aligned_labels(hypothesis: str, reference: str) -> Iterator[tuple[str, str]]:
    """Yield (expected, predicted) for every position of either side."""
    predicted, expected = hypothesis.split(), reference.split()
    for place in range(max(len(predicted), len(expected))):
        yield (
            expected[place] if place < len(expected) else MISSING,
            predicted[place] if place < len(predicted) else MISSING,
        )


def _best_reference(hypothesis: str, references: Sequence[str]) -> list[tuple[str, str]]:
    """Return the labels aligned to the reference that agrees most."""
    rows = [list(aligned_labels(hypothesis, reference)) for reference in references]
    return max(rows, key=lambda row: sum(one == two for one, two in row) / max(1, len(row)))


@dataclass(frozen=True)
class Accuracy(SentenceMetric):
    """Percentage of correct labels; a missing or additional label is wrong."""

    def statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return the number of correct labels and of all labels."""
        row = _best_reference(hypothesis, references)
        return [float(sum(one == two for one, two in row)), float(len(row))]

    def compute(self, total: Matrix) -> float:
        correct, labels = map(float, total)
        return 100 * correct / labels if labels else 0.0

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        facts = {"tok": "space", "refs": "nearest"}
        return own_signature(self.name, facts, nrefs=nrefs, bootstrap=bootstrap, seed=seed)


@dataclass(frozen=True)
class MacroF1:
    """Mean over all labels of F1 = 2 PR / (P + R) in percent; every label counts the same."""

    name: str = "macro-f1"
    label: str = "macro F1"
    higher_is_better: bool = True

    def corpus_statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Matrix:
        """Return true positives, predictions and occurrences of each label in each sentence, (N, 3 L)."""
        pairs = zip(hypotheses, references, strict=True)
        rows = [_best_reference(hypothesis, given) for hypothesis, given in pairs]
        place = {
            name: i for i, name in enumerate(sorted({name for row in rows for pair in row for name in pair}))
        }
        counts = np.zeros((len(rows), 3, len(place)))
        for sentence, row in zip(counts, rows, strict=True):
            for expected, predicted in row:
                sentence[0, place[expected]] += expected == predicted
                sentence[1, place[predicted]] += 1
                sentence[2, place[expected]] += 1
        return counts.reshape(len(rows), -1)

    def compute(self, total: Matrix) -> float:
        correct, predicted, expected = total.reshape(3, -1)
        occurring = predicted + expected
        f1 = 2 * correct[occurring > 0] / occurring[occurring > 0]
        return 100 * float(f1.mean()) if len(f1) else 0.0

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        """Return the signature; there is no interval, because a resample may lack a label."""
        return own_signature(
            self.name, {"tok": "space", "refs": "nearest"}, nrefs=nrefs, bootstrap=0, seed=seed
        )


class LabelScore(NamedTuple):
    """Scores of one label, as fractions."""

    label: str
    occurrences: int  # in the references
    precision: float
    recall: float  # the accuracy on the words that have this label
    f1: float
    mistaken_for: str  # most frequent wrong prediction; empty if there is none


@dataclass(frozen=True)
class Confusion:
    """Number of times that each label (row) was predicted as each label (column)."""

    labels: tuple[str, ...]
    counts: Matrix  # (L, L)

    @classmethod
    def of(cls, hypotheses: Sequence[str], references: Sequence[str]) -> Confusion:
        """Count the labels of all sentences; labels are ordered by frequency in the references."""
        pairs = zip(hypotheses, references, strict=True)
        counts = Counter(pair for both in pairs for pair in aligned_labels(*both))
        frequency = Counter[str]()
        for (expected, predicted), count in counts.items():
            frequency[expected] += count
            frequency[predicted] += 0
        names = tuple(sorted(frequency, key=lambda name: (-frequency[name], name)))
        place = {name: i for i, name in enumerate(names)}
        matrix = np.zeros((len(names), len(names)))
        for (expected, predicted), count in counts.items():
            matrix[place[expected], place[predicted]] = count
        return cls(names, matrix)

    @property
    def accuracy(self) -> float:
        """Fraction of correct labels."""
        return float(np.trace(self.counts) / max(1.0, self.counts.sum()))

    @property
    def macro_f1(self) -> float:
        """Mean F1 of all labels."""
        return float(np.mean([score.f1 for score in self.scores()])) if self.labels else 0.0

    def scores(self) -> list[LabelScore]:
        """Return the scores of each label; a fraction without a denominator is 0."""
        found = []
        for i, label in enumerate(self.labels):
            correct, expected, predicted = (
                self.counts[i, i],
                self.counts[i].sum(),
                self.counts[:, i].sum(),
            )
            wrong = np.where(np.arange(len(self.labels)) == i, 0, self.counts[i])
            found.append(
                LabelScore(
                    label,
                    int(expected),
                    float(correct / max(1.0, predicted)),
                    float(correct / max(1.0, expected)),
                    float(2 * correct / max(1.0, expected + predicted)),
                    self.labels[int(wrong.argmax())] if wrong.any() else "",
                )
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "labels": list(self.labels),
            "counts": self.counts.astype(int).tolist(),
            "scores": [score._asdict() for score in self.scores()],
        }
