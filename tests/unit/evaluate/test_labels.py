"""Accuracy, macro F1 and the confusion matrix equal those of scikit-learn."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from seqloom.evaluate.labels import MISSING, Confusion
from seqloom.evaluate.metrics import evaluate

TAGS = ("N", "V", "D", "A", "X")


def random_labels(seed: int, only: tuple[str, ...] = TAGS) -> tuple[list[str], list[str]]:
    """Return predicted and correct tags of 40 sentences; `only` are the tags that are predicted."""
    draw = random.Random(seed)
    lengths = [draw.randint(1, 9) for _ in range(40)]
    expected = [[draw.choice(TAGS) for _ in range(length)] for length in lengths]
    predicted = [
        [tag if draw.random() < 0.6 and tag in only else draw.choice(only) for tag in row] for row in expected
    ]
    return [" ".join(row) for row in predicted], [" ".join(row) for row in expected]


@pytest.mark.parametrize("only", [TAGS, TAGS[:3]])
@pytest.mark.parametrize("seed", [1, 2])
def test_scores_equal_those_of_scikit_learn(seed: int, only: tuple[str, ...]) -> None:
    predicted, expected = random_labels(seed, only)
    flat = " ".join(expected).split(), " ".join(predicted).split()
    precision, recall, f1, support = precision_recall_fscore_support(*flat, labels=TAGS, zero_division=0)
    accuracy, macro = evaluate(predicted, [[text] for text in expected], "accuracy,macro-f1", bootstrap=0)
    assert accuracy.value == pytest.approx(100 * accuracy_score(*flat))
    assert macro.value == pytest.approx(100 * f1.mean())
    found = Confusion.of(predicted, expected)
    assert (found.accuracy, found.macro_f1) == pytest.approx((accuracy.value / 100, macro.value / 100))
    assert np.array_equal(found.counts, confusion_matrix(*flat, labels=found.labels))
    scores = {score.label: score for score in found.scores()}
    for i, tag in enumerate(TAGS):
        got = scores[tag]
        assert (got.precision, got.recall, got.f1, got.occurrences) == pytest.approx(
            (precision[i], recall[i], f1[i], support[i])
        )


def test_a_missing_or_additional_label_is_an_error() -> None:
    (accuracy,) = evaluate(["N V", "N", "N N"], [["N"], ["N V"], ["N N"]], "accuracy", bootstrap=0)
    assert accuracy.value == pytest.approx(100 * 4 / 6)
    found = Confusion.of(["N V", "N"], ["N", "N V"])
    assert MISSING in found.labels
    assert found.accuracy == 0.5


def test_the_reference_that_agrees_most_counts() -> None:
    (accuracy,) = evaluate(["N V"], [["V V", "N V"]], "accuracy", bootstrap=0)
    assert accuracy.value == 100


def test_labels_are_ordered_by_frequency_and_have_their_most_frequent_mistake() -> None:
    found = Confusion.of(["V V N D"], ["N N N D"])
    assert found.labels == ("N", "D", "V")
    assert [score.mistaken_for for score in found.scores()] == ["V", "", ""]
