"""Numbered word sequences in sorted arrays, which need no construction when a model is loaded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class Trie:
    """Sequences by number: a sequence of k words is the number of its first k - 1 words and its last word.

    `levels[k - 1]` has the sequences of k words as sorted keys, parent · vocabulary + word. Sequences are
    numbered consecutively, shorter ones first.
    """

    def __init__(self, levels: list[Numbers], vocabulary: int) -> None:
        self.levels = levels
        self.vocabulary = vocabulary
        self.starts = [0, *np.cumsum([len(level) for level in levels]).tolist()]

    def __len__(self) -> int:
        return int(self.starts[-1])

    @classmethod
    def of(cls, words: Numbers, max_lengths: Numbers, vocabulary: int) -> Trie:
        """Build a trie of the sequences that start at each position of a text, up to its maximum length."""
        trie = cls([], vocabulary)
        numbers = np.zeros(len(words), np.int64)
        for length in range(1, int(max_lengths.max(initial=0)) + 1):
            positions = np.flatnonzero(max_lengths >= length)
            keys = numbers[positions] * vocabulary + words[positions + length - 1]
            level, order = np.unique(keys, return_inverse=True)
            numbers[positions] = len(trie) + order
            trie = cls([*trie.levels, level], vocabulary)
        return trie

    def find(self, words: Numbers) -> Numbers:
        """Return the number of the sequence of k words that starts at each position, or -1, (levels, N)."""
        numbers = np.full((len(self.levels), len(words)), -1, np.int64)
        parents = np.zeros(len(words), np.int64)
        for depth, level in enumerate(self.levels[: len(words)]):
            count = len(words) - depth
            parents = parents[:count]
            keys = np.where(parents < 0, -1, parents * self.vocabulary + words[depth:])
            at = np.minimum(np.searchsorted(level, keys), len(level) - 1)
            parents = np.where(level[at] == keys, self.starts[depth] + at, -1)
            numbers[depth, :count] = parents
        return numbers

    def words(self, number: int) -> tuple[int, ...]:
        """Return the words of a sequence."""
        words: list[int] = []
        depth = int(np.searchsorted(self.starts, number, side="right")) - 1
        for level in range(depth, -1, -1):
            key = int(self.levels[level][number - self.starts[level]])
            number, word = divmod(key, self.vocabulary)
            words.append(word)
        return tuple(reversed(words))

    def lengths(self) -> Numbers:
        """Return the number of words of each sequence."""
        return np.repeat(np.arange(1, len(self.levels) + 1), [len(level) for level in self.levels])
