"""An n-gram model that answers: the probability of a word in a context, or of every word at once."""

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

_REMEMBERED = 1 << 18  # answers kept at hand, some 60 MB at the most


class Ngrams:
    """ln p(word | context) by the longest n-gram that the tables have, with backoff to shorter contexts."""

    start: Context = (BOS,)

    def __init__(self, levels: Sequence[Level], notes: Sequence[str] = ()) -> None:
        self.levels, self.notes = list(levels), list(notes)
        self.order, self.vocabulary = len(levels), len(levels[0])
        # Memory views: Python reads one number of them faster than of an array.
        self._views = [[memoryview(getattr(level, name)) for name in Level.names()] for level in levels]
        self._nodes: dict[Context, tuple[int, int]] = {}
        self._answers: dict[tuple[Context, int], tuple[float, Context]] = {}

    def __reduce__(self) -> tuple[type[Ngrams], tuple[list[Level], list[str]]]:
        return Ngrams, (self.levels, self.notes)  # to another process go the tables, not what is remembered

    @classmethod
    def estimate(cls, rows: Rows, *, order: int, vocabulary: int, prune: Sequence[int] = ()) -> Ngrams:
        """The modified Kneser-Ney model of these rows of ids, which have neither BOS nor EOS.

        `prune` says per order up to which count n-grams are left out; its last number is for all longer ones.
        """
        return cls(*smooth(rows, order=order, vocabulary=vocabulary, prune=prune))

    def log_prob(self, context: Context, word: int) -> tuple[float, Context]:
        """ln p(word | context), and the shortest context that gives the same for all that follows.

        Histories whose contexts are equal can be recombined. Asked again in the context that it returned,
        the model is quickest.
        """
        answer = self._answers.get((context, word))
        if answer is None:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            answer = self._answers[context, word] = self._look_up(context, word)
        return answer

    def _look_up(self, context: Context, word: int) -> tuple[float, Context]:
        views = self._views
        length, place = self._nodes.get(context) or self._node(context)
        weight = 0.0
        while length:  # the n-gram at `place` is the end of the context that we look for the word behind
            _, _, backoffs, bounds, suffixes = views[length - 1]
            words = views[length][0]
            end = bounds[place + 1]
            found = bisect_left(words, word, bounds[place], end)
            if found < end and words[found] == word:
                break
            weight += backoffs[place]
            place = suffixes[place]
            length -= 1
        else:
            found = word
        log_prob = weight + views[length][1][found]
        node = self._end(length + 1, found)
        after = (*context, word)[len(context) + 1 - node[0] :]
        self._remember(after, node)
        return log_prob, after

    def _end(self, length: int, place: int) -> tuple[int, int]:
        """Length and place of the longest end of an n-gram that, as a context, says more than shorter ones."""
        while length:
            _, _, backoffs, bounds, suffixes = self._views[length - 1]
            if length < self.order and (bounds[place] < bounds[place + 1] or backoffs[place]):
                break
            place = suffixes[place]
            length -= 1
        return length, place

    def _node(self, context: Context) -> tuple[int, int]:
        """The longest n-gram that ends a context and matters: its length (0 = none) and its place."""
        node = (0, 0)
        for length in range(min(len(context), self.order - 1), 0, -1):
            place = self._find(context[-length:])
            if place is not None:
                node = self._end(length, place)
                break
        self._remember(context, node)
        return node

    def _remember(self, context: Context, node: tuple[int, int]) -> None:
        if len(self._nodes) >= _REMEMBERED:
            self._nodes.clear()
        self._nodes[context] = node

    def _find(self, ngram: Context) -> int | None:
        """The place of an n-gram in the table of its order."""
        place = ngram[0]
        for level, word in enumerate(ngram[1:], 1):
            bounds, words = self._views[level - 1][3], self._views[level][0]
            end = bounds[place + 1]
            place = bisect_left(words, word, bounds[place], end)
            if place == end or words[place] != word:
                return None
        return place

    def score(self, row: Iterable[int]) -> list[float]:
        """ln p of every word of a row, and of its end."""
        found, context = [], self.start
        for word in (*row, EOS):
            log_prob, context = self.log_prob(context, int(word))
            found.append(log_prob)
        return found

    def log_probs(self, contexts: Sequence[Context]) -> NDArray[np.float32]:
        """ln p of every word in every context, (R, V); PAD and BOS have -inf."""
        found = np.empty((len(contexts), self.vocabulary), np.float32)
        for row, context in zip(found, contexts, strict=True):
            self._fill(row, *(self._nodes.get(context) or self._node(context)))
        return found

    def _fill(self, row: NDArray[np.float32], length: int, place: int) -> None:
        """Writes the distribution behind a context into a row: longer contexts over shorter ones."""
        layers, weight = [], 0.0
        for level in range(length, 0, -1):
            this, longer = self.levels[level - 1], self.levels[level]
            own = slice(this.continuations[place], this.continuations[place + 1])
            layers.append((longer.words[own], longer.log_probs[own] + np.float32(weight)))
            weight += float(this.backoffs[place])
            place = this.suffixes[place]
        np.add(self.levels[0].log_probs, np.float32(weight), out=row)
        for words, log_probs in reversed(layers):
            row[words] = log_probs

    def to_tensors(self) -> dict[str, Tensor]:
        """All tables, e.g. "3.words" the last words of the trigrams."""
        return {
            f"{n}.{name}": torch.from_numpy(getattr(level, name))
            for n, level in enumerate(self.levels, 1)
            for name in Level.names()
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Ngrams:
        """The model that `to_tensors` gave; tables that contradict each other are a ValueError."""
        order = sum(name.endswith(".words") for name in tensors)
        if order == 0:
            raise ValueError("there are no n-grams")
        given = StateReader({name: tensor.cpu() for name, tensor in tensors.items()}, nothing=0)
        return cls([_level(given, n, order) for n in range(1, order + 1)])


def _level(given: StateReader, n: int, order: int) -> Level:
    """The table of one order, if it fits to those before and after it."""
    own, longest = f"{n}-grams", n == order
    words = given.integers(f"{n}.words", own, dtype=torch.int32, below=given.sizes.get("1-grams"))
    if n == 1 and not torch.equal(words, torch.arange(len(words), dtype=torch.int32)):
        raise ValueError("1.words is not the vocabulary")
    ends = given.integers(
        f"{n}.continuations", "nothing" if longest else f"{own} and the end", dtype=torch.int32
    )
    if not longest:
        check_bounds(ends, f"{n}.continuations", parts=len(words), last=len(given.state[f"{n + 1}.words"]))
    shorter = given.sizes[f"{n - 1}-grams"] if n > 1 else 1
    return Level(
        words=words.numpy(),
        log_probs=given.numbers(f"{n}.log_probs", own, dtype=torch.float32).numpy(),
        backoffs=given.numbers(f"{n}.backoffs", "nothing" if longest else own, dtype=torch.float32).numpy(),
        continuations=ends.numpy(),
        suffixes=given.integers(f"{n}.suffixes", own, dtype=torch.int32, below=shorter).numpy(),
    )
