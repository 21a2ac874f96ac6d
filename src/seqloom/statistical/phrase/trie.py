"""Numbers of word sequences, in sorted arrays: nothing to build when a model is loaded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class Trie:
    """Sequences by number: one of k words is the number of its first k - 1 words and its last word.

    `levels[k - 1]` are the sequences of k words as sorted keys, parent · vocabulary + word. Sequences are
    numbered through, the short ones first.
    """

    def __init__(self, levels: list[Numbers], vocabulary: int) -> None:
        self.levels = levels
        self.vocabulary = vocabulary
        self.starts = [0, *np.cumsum([len(level) for level in levels]).tolist()]

    def __len__(self) -> int:
        return int(self.starts[-1])

    @classmethod
    def of(cls, words: Numbers, wanted: Numbers, vocabulary: int) -> Trie:
        """The sequences that begin at every place of a text and have at most `wanted` words there."""
        trie = cls([], vocabulary)
        numbers = np.zeros(len(words), np.int64)
        for length in range(1, int(wanted.max(initial=0)) + 1):
            places = np.flatnonzero(wanted >= length)
            keys = numbers[places] * vocabulary + words[places + length - 1]
            level, order = np.unique(keys, return_inverse=True)
            numbers[places] = len(trie) + order
            trie = cls([*trie.levels, level], vocabulary)
        return trie

    def find(self, words: Numbers) -> Numbers:
        """(levels, N): the number of the sequence of k words that begins at each place, or -1."""
        found = np.full((len(self.levels), len(words)), -1, np.int64)
        parents = np.zeros(len(words), np.int64)
        for depth, level in enumerate(self.levels[: len(words)]):
            places = len(words) - depth
            parents = parents[:places]
            keys = np.where(parents < 0, -1, parents * self.vocabulary + words[depth:])
            at = np.minimum(np.searchsorted(level, keys), len(level) - 1)
            parents = np.where(level[at] == keys, self.starts[depth] + at, -1)
            found[depth, :places] = parents
        return found

    def words(self, number: int) -> tuple[int, ...]:
        """The words of a sequence."""
        words: list[int] = []
        depth = int(np.searchsorted(self.starts, number, side="right")) - 1
        for level in range(depth, -1, -1):
            key = int(self.levels[level][number - self.starts[level]])
            number, word = divmod(key, self.vocabulary)
            words.append(word)
        return tuple(reversed(words))

    def lengths(self) -> Numbers:
        """How many words each sequence has."""
        return np.repeat(np.arange(1, len(self.levels) + 1), [len(level) for level in self.levels])
