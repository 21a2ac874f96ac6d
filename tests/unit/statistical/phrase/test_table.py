"""Tests of the phrase table and of numbered phrases."""

from __future__ import annotations

import numpy as np

from seqloom.statistical.phrase.table import PhraseTable, build_table
from seqloom.statistical.phrase.trie import Trie

SOURCES = [np.array([4, 5, 6]), np.array([4, 5]), np.array([7])]
TARGETS = [np.array([8, 9, 10, 11]), np.array([8, 9]), np.array([12])]
LINKS = [np.array([[0, 0], [1, 2], [1, 1], [2, 1]]), np.array([[0, 0], [1, 1]]), np.zeros((0, 2), int)]


def _table(**options: int) -> PhraseTable:
    chosen = {"longest": 3, "limit": 10} | options
    return build_table(SOURCES, TARGETS, LINKS, vocabularies=(20, 20), smooth=False, strength=1.0, **chosen)


def _translations(table: PhraseTable, *words: int) -> list[tuple[int, ...]]:
    number = int(table.source.find(np.array(words))[len(words) - 1, 0])
    rows = range(*table.first[number : number + 2].tolist()) if number >= 0 else []
    return [table.target.words(int(table.translation[row])) for row in rows]


def test_translations_of_phrases() -> None:
    table = _table()
    assert set(_translations(table, 4)) == {(8,)}
    assert set(_translations(table, 5, 6)) == {(9, 10), (9, 10, 11)}
    assert set(_translations(table, 4, 5)) == {(8, 9)}
    assert _translations(table, 7) == [], "a word without links is in no phrase of its own"
    assert _translations(table, 6) == []


def test_links_inside_a_phrase() -> None:
    table = _table()
    number = int(table.source.find(np.array([5, 6]))[1, 0])
    rows = range(*table.first[number : number + 2].tolist())
    found = {table.target.words(int(table.translation[row])): table.linked(row, 2, 3) for row in rows}
    assert found[9, 10, 11] == [[0, 1], [0], []]
    assert found[9, 10][:2] == [[0, 1], [0]]


def test_most_probable_translations_are_kept() -> None:
    assert len(_table(limit=1)) == len(set(_table().first.tolist())) - 1
    assert _translations(_table(limit=1), 4) == [(8,)]


def test_tensors_round_trip() -> None:
    table = _table()
    again = PhraseTable.from_tensors(table.to_tensors())
    assert _translations(again, 5, 6) == _translations(table, 5, 6)
    for name in ("first", "translation", "scores", "reordering", "links"):
        assert np.array_equal(getattr(again, name), getattr(table, name))


def test_trie_maps_numbers_to_words_and_back() -> None:
    words = np.array([1, 2, 3, 1, 2, 9, 1])
    trie = Trie.of(words, np.array([3, 2, 1, 3, 2, 0, 1]), 10)
    numbers = trie.find(words)
    assert trie.words(int(numbers[2, 0])) == (1, 2, 3)
    assert trie.words(int(numbers[2, 3])) == (1, 2, 9)
    assert numbers[1, 1] != -1 and numbers[2, 1] == -1, "2 3 1 was not asked for"
    assert [len(trie.words(number)) for number in range(len(trie))] == sorted(
        len(trie.words(number)) for number in range(len(trie))
    )
    assert trie.find(np.array([9, 9])).tolist() == [[-1, -1]] * 3
    assert trie.find(np.zeros(0, np.int64)).shape == (3, 0)
