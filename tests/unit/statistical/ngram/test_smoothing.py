"""Tests of discounts, their fallback, and invalid pruning thresholds."""

from __future__ import annotations

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.statistical.ngram.smoothing import FALLBACK, estimate_discounts, smooth
from seqloom.statistical.ngram.tables import Ngrams


def test_discounts_match_the_equations() -> None:
    y = 100 / (100 + 2 * 40)
    assert estimate_discounts([100, 40, 20, 10]) == pytest.approx(
        (1 - 2 * y * 40 / 100, 2 - 3 * y * 20 / 40, 3 - 4 * y * 10 / 20)
    )


@pytest.mark.parametrize("counts", [(0, 3, 2, 1), (3, 0, 2, 1), (3, 2, 0, 1), (10, 2, 30, 1)])
def test_degenerate_counts_have_no_discounts(counts: tuple[int, ...]) -> None:
    assert estimate_discounts(counts) is None


def test_too_little_text_uses_fallback_with_a_note() -> None:
    model = Ngrams.estimate([[4, 5, 6]], order=2, vocabulary=8)
    (note,) = model.notes
    assert note.startswith("orders 1, 2: ") and note.endswith(f"discounts; using {FALLBACK}")
    assert np.exp(model.log_probs([(), (1,), (4,)]).astype(float)).sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("prune", "message"),
    [
        ((1, 1), "the first threshold must be 0, got 1"),
        ((0, 2, 1), "thresholds must not decrease with the order, got 0 2 1"),
    ],
)
def test_invalid_thresholds_are_an_error(prune: tuple[int, ...], message: str) -> None:
    with pytest.raises(SeqloomError, match=message):
        smooth([[4]], order=3, vocabulary=8, prune=prune)


def test_empty_text_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="no text to count"):
        Ngrams.estimate([], order=3, vocabulary=8)


def test_last_threshold_repeats_and_excess_ones_are_ignored() -> None:
    rows = [[4, 5, 6, 7], [4, 5, 6, 7], [4, 5, 6, 4]]
    sizes = [
        [len(level) for level in smooth(rows, order=3, vocabulary=8, prune=prune)[0]]
        for prune in ((0, 1), (0, 1, 1), (0, 1, 1, 9))
    ]
    assert sizes[0] == sizes[1] == sizes[2] == [8, 5, 4]
