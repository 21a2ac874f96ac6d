"""Tests of n-gram counts against a dict, for several chunk sizes."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from seqloom.statistical.ngram.counts import NgramCounts, count
from seqloom.types import BOS, EOS

V = 9
DRAW = random.Random(0)
ROWS = [[DRAW.randrange(3, V) for _ in range(DRAW.randrange(6))] for _ in range(50)]


def spelled(levels: list[NgramCounts]) -> list[dict[tuple[int, ...], int]]:
    """Return the counts of every order, keyed by the words of the n-gram."""
    grams: list[tuple[int, ...]] = [()]
    found = []
    for level in levels:
        longer = [(*grams[parent], int(word)) for parent, word in zip(level.parents, level.words, strict=True)]
        assert longer == sorted(longer)
        for gram, suffix in zip(longer, level.suffixes, strict=True):
            assert grams[suffix] == gram[1:]
        found.append(dict(zip(longer, level.counts.tolist(), strict=True)))
        grams = longer
    return found


@pytest.mark.parametrize("chunk", [1, 20, 1000])
def test_counts_match_a_dict(chunk: int) -> None:
    unigrams, *longer = spelled(list(count(ROWS, order=4, vocabulary=V, chunk=chunk)))
    texts = [(BOS, *row, EOS) for row in ROWS]
    assert unigrams == {(w,): sum(text.count(w) for text in texts) * (w != BOS) for w in range(V)}
    for n, found in enumerate(longer, 2):
        assert found == Counter(text[i : i + n] for text in texts for i in range(len(text) - n + 1))


def test_rows_may_be_arrays_of_any_integers() -> None:
    lists = spelled(list(count(ROWS, order=3, vocabulary=V)))
    assert lists == spelled(list(count((np.array(row, np.uint16) for row in ROWS), order=3, vocabulary=V)))


def test_order_longer_than_every_row_is_empty() -> None:
    assert [len(level) for level in count([[4], [4]], order=5, vocabulary=V)] == [V, 2, 1, 0, 0]
