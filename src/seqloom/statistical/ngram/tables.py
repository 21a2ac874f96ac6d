"""n-gram model: the probability of one word, or of all words, in a context."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.statistical.ngram.counts import Rows
from seqloom.statistical.ngram.levels import Level
from seqloom.statistical.ngram.smoothing import smooth
from seqloom.statistical.state_reader import StateReader, check_bounds
from seqloom.types import BOS, EOS

Context = tuple[int, ...]

_CACHE_SIZE = 1 << 18  # cached results, at most about 60 MB


class Ngrams:
    """ln p(word | context) by the longest matching n-gram, with backoff to shorter contexts."""

    start: Context = (BOS,)

    def __init__(self, levels: Sequence[Level], notes: Sequence[str] = ()) -> None:
        self.levels, self.notes = list(levels), list(notes)
        self.order, self.vocabulary = len(levels), len(levels[0])
        # Memory views: reading single elements from Python is faster than with NumPy arrays.
        self._views = [[memoryview(getattr(level, name)) for name in Level.names()] for level in levels]
        self._nodes: dict[Context, tuple[int, int]] = {}
        self._cache: dict[tuple[Context, int], tuple[float, Context]] = {}

    def __reduce__(self) -> tuple[type[Ngrams], tuple[list[Level], list[str]]]:
        return Ngrams, (self.levels, self.notes)  # other processes get the tables without the caches

    @classmethod
    def estimate(cls, rows: Rows, *, order: int, vocabulary: int, prune: Sequence[int] = ()) -> Ngrams:
        """Estimate a modified Kneser-Ney model of rows of ids, which contain neither BOS nor EOS.

        `prune` has one threshold per order: n-grams up to this count are dropped; the last value repeats.
        """
        return cls(*smooth(rows, order=order, vocabulary=vocabulary, prune=prune))

    def log_prob(self, context: Context, word: int) -> tuple[float, Context]:
        """Return ln p(word | context), and the shortest context that gives the same later probabilities.

        Histories with equal contexts can be recombined. Queries are fastest with a returned context.
        """
        result = self._cache.get((context, word))
        if result is None:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            result = self._cache[context, word] = self._look_up(context, word)
        return result

    def _look_up(self, context: Context, word: int) -> tuple[float, Context]:
        views = self._views
        length, index = self._nodes.get(context) or self._node(context)
        weight = 0.0
        while length:  # the n-gram at `index` is the suffix of the context to look the word up in
            _, _, backoffs, bounds, suffixes = views[length - 1]
            words = views[length][0]
            end = bounds[index + 1]
            match = bisect_left(words, word, bounds[index], end)
            if match < end and words[match] == word:
                break
            weight += backoffs[index]
            index = suffixes[index]
            length -= 1
        else:
            match = word
        log_prob = weight + views[length][1][match]
        node = self._shortened(length + 1, match)
        following = (*context, word)[len(context) + 1 - node[0] :]
        self._store_node(following, node)
        return log_prob, following

    def _shortened(self, length: int, index: int) -> tuple[int, int]:
        """Return length and index of the longest suffix of an n-gram that matters as a context."""
        while length:
            _, _, backoffs, bounds, suffixes = self._views[length - 1]
            if length < self.order and (bounds[index] < bounds[index + 1] or backoffs[index]):
                break
            index = suffixes[index]
            length -= 1
        return length, index

    def _node(self, context: Context) -> tuple[int, int]:
        """Return length (0 = none) and index of the longest n-gram that ends the context and matters."""
        node = (0, 0)
        for length in range(min(len(context), self.order - 1), 0, -1):
            index = self._find(context[-length:])
            if index is not None:
                node = self._shortened(length, index)
                break
        self._store_node(context, node)
        return node

    def _store_node(self, context: Context, node: tuple[int, int]) -> None:
        if len(self._nodes) >= _CACHE_SIZE:
            self._nodes.clear()
        self._nodes[context] = node

    def _find(self, ngram: Context) -> int | None:
        """Return the index of an n-gram in the table of its order, or None."""
        index = ngram[0]
        for level, word in enumerate(ngram[1:], 1):
            bounds, words = self._views[level - 1][3], self._views[level][0]
            end = bounds[index + 1]
            index = bisect_left(words, word, bounds[index], end)
            if index == end or words[index] != word:
                return None
        return index

    def score(self, row: Iterable[int]) -> list[float]:
        """Return ln p of every word of a row, and of its EOS."""
        scores, context = [], self.start
        for word in (*row, EOS):
            log_prob, context = self.log_prob(context, int(word))
            scores.append(log_prob)
        return scores

    def log_probs(self, contexts: Sequence[Context]) -> NDArray[np.float32]:
        """Return ln p of every word in every context, (R, V); -inf for PAD and BOS."""
        log_probs = np.empty((len(contexts), self.vocabulary), np.float32)
        for row, context in zip(log_probs, contexts, strict=True):
            self._fill(row, *(self._nodes.get(context) or self._node(context)))
        return log_probs

    def _fill(self, row: NDArray[np.float32], length: int, index: int) -> None:
        """Write the distribution after a context into `row`: longer contexts overwrite shorter ones."""
        layers, weight = [], 0.0
        for level in range(length, 0, -1):
            this, longer = self.levels[level - 1], self.levels[level]
            span = slice(this.continuations[index], this.continuations[index + 1])
            layers.append((longer.words[span], longer.log_probs[span] + np.float32(weight)))
            weight += float(this.backoffs[index])
            index = this.suffixes[index]
        np.add(self.levels[0].log_probs, np.float32(weight), out=row)
        for words, log_probs in reversed(layers):
            row[words] = log_probs

    def to_tensors(self) -> dict[str, Tensor]:
        """Return all tables by name; "3.words", for example, has the last words of the trigrams."""
        return {
            f"{n}.{name}": torch.from_numpy(getattr(level, name))
            for n, level in enumerate(self.levels, 1)
            for name in Level.names()
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Ngrams:
        """Restore the model from `to_tensors`; raise ValueError if tables contradict each other."""
        order = sum(name.endswith(".words") for name in tensors)
        if order == 0:
            raise ValueError("no n-grams")
        reader = StateReader({name: tensor.cpu() for name, tensor in tensors.items()}, empty=0)
        return cls([_level(reader, n, order) for n in range(1, order + 1)])


def _level(reader: StateReader, n: int, order: int) -> Level:
    """Return the table of one order, checked against the previous and the next one."""
    axis, longest = f"{n}-grams", n == order
    words = reader.integers(f"{n}.words", axis, dtype=torch.int32, below=reader.sizes.get("1-grams"))
    if n == 1 and not torch.equal(words, torch.arange(len(words), dtype=torch.int32)):
        raise ValueError("1.words is not the vocabulary")
    ends = reader.integers(f"{n}.continuations", "empty" if longest else f"{axis} + 1", dtype=torch.int32)
    if not longest:
        check_bounds(ends, f"{n}.continuations", parts=len(words), last=len(reader.state[f"{n + 1}.words"]))
    shorter = reader.sizes[f"{n - 1}-grams"] if n > 1 else 1
    return Level(
        words=words.numpy(),
        log_probs=reader.numbers(f"{n}.log_probs", axis, dtype=torch.float32).numpy(),
        backoffs=reader.numbers(f"{n}.backoffs", "empty" if longest else axis, dtype=torch.float32).numpy(),
        continuations=ends.numpy(),
        suffixes=reader.integers(f"{n}.suffixes", axis, dtype=torch.int32, below=shorter).numpy(),
    )
