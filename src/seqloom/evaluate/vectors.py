"""Squared error of outputs that are arrays, given as JSON, against references in .npy or .npz files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import SeqloomError, quoted
from seqloom.evaluate.resample import Matrix
from seqloom.evaluate.sentence_metric import SentenceMetric, own_signature
from seqloom.text.frames import read_features


@dataclass(frozen=True)
class NormalisedSquaredError(SentenceMetric):
    """Squared error in percent of the variance of the references: 100 is that of their mean.

    100 Σ ‖ŷ - y‖² / Σ ‖y - ȳ‖². If an output has another number of vectors than its reference, the shorter one
    is continued with zeros.
    """

    def statistics(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return the squared error, the number of vectors, and for each feature the sums of y and of y²."""
        predicted = _array(hypothesis)
        rows = []
        for reference in references:
            expected = read_features(reference).frames.astype(np.float64)
            if predicted.size and predicted.shape[1] != expected.shape[1]:
                raise SeqloomError(
                    f"An output has {predicted.shape[1]} features, but {reference} has {expected.shape[1]}.",
                    "evaluate on arrays of the width of the training data",
                )
            longest = max(len(predicted), len(expected))
            both = [_padded(array, longest, expected.shape[1]) for array in (predicted, expected)]
            sums = expected.sum(0), (expected**2).sum(0)
            rows.append([float(((both[0] - both[1]) ** 2).sum()), float(len(expected)), *np.concatenate(sums)])
        return min(rows)

    def compute(self, total: Matrix) -> float:
        error, count = float(total[0]), float(total[1])
        sums, squares = total[2:].reshape(2, -1)
        variance = float((squares - sums**2 / max(count, 1)).sum())
        return 100 * error / variance if variance > 0 else 100.0 * (error > 0)

    def signature(self, *, nrefs: int | None, bootstrap: int, seed: int) -> str:
        return own_signature(self.name, {"refs": "nearest"}, nrefs=nrefs, bootstrap=bootstrap, seed=seed)


def _array(text: str) -> NDArray[np.float64]:
    """Return the array (T, F) that a text contains as JSON."""
    try:
        found: Any = np.asarray(json.loads(text), np.float64)
    except ValueError:
        found = np.empty(0)
    if text.strip() != "[]" and found.ndim != 2:
        raise SeqloomError(
            f"The output {quoted(text)} is not an array of vectors.",
            "use nmse with models of vectors, and metrics of text with other models",
        )
    return found if found.ndim == 2 else np.empty((0, 0))


def _padded(array: NDArray[np.float64], length: int, width: int) -> NDArray[np.float64]:
    found = np.zeros((length, width))
    found[: len(array)] = array if array.size else 0
    return found
