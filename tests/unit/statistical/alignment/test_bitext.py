"""Tests of the corpus layout: every link has its word pair, in both directions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from seqloom.statistical.alignment import bitext as module
from seqloom.statistical.alignment.bitext import Bitext, build_bitext

PAIRS = [([5, 6], [7]), ([], [1]), ([6], [7, 8, 7]), ([5, 5], [9]), (np.array([6, 5]), np.array([7]))]


def make_bitext() -> Bitext:
    with ThreadPoolExecutor(1) as pool:
        return build_bitext(PAIRS, pool)


@pytest.mark.parametrize("chunk", [1, 4, 1 << 20])
@pytest.mark.parametrize("swapped", [False, True])
def test_every_link_has_its_word_pair(chunk: int, swapped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    corpus = make_bitext().swapped() if swapped else make_bitext()
    seen = []
    for part in corpus.chunks:
        for block in part.blocks:
            links = block.view(part.words[part.links])  # (B, T, S)
            for row, pair in enumerate(block.pairs):
                seen.append(int(pair))
                source, target = reversed(PAIRS[pair]) if swapped else PAIRS[pair]
                np.testing.assert_array_equal(corpus.source[links[row]], np.tile(source, (len(target), 1)))
                np.testing.assert_array_equal(corpus.target[links[row]].T, np.tile(target, (len(source), 1)))
        np.testing.assert_array_equal(part.target, np.concatenate([b.target.ravel() for b in part.blocks]))
    assert sorted(seen) == [0, 2, 3, 4]


def test_word_pairs_are_distinct_and_sorted() -> None:
    corpus = make_bitext()
    found = list(zip(corpus.source.tolist(), corpus.target.tolist(), strict=True))
    assert found == [(5, 7), (5, 9), (6, 7), (6, 8)]
    assert (corpus.source_size, corpus.target_size, corpus.pairs) == (7, 10, 5)


def test_both_directions_share_the_links() -> None:
    corpus = make_bitext()
    assert corpus.swapped().chunks[0].links is corpus.chunks[0].links
